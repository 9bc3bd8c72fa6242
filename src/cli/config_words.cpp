#include "cli/config_words.h"

#include <fmt/format.h>

namespace tidepool {

Result<Config> config_of(const std::vector<std::string>& words, KeptModel kept) {
  if (words.empty() || words[0].find('=') != std::string::npos) {
    return usage_error("the first word must be a config file, for example examples/own-text/config.yaml");
  }
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i].find('=') == std::string::npos) {
      return usage_error(fmt::format("'{}' is not an override; write key=value after the config", words[i]));
    }
    // "machine=$FILE" becomes this if FILE is not set. Refused, so that a plan by bytes is not taken for one
    // by time.
    if (words[i] == "machine=" || words[i] == "machine.file=")
      return usage_error(fmt::format(
          "{} names no file; name a machine file, or write machine.file='\"\"' to plan without one",
          words[i]));
  }
  return load_config(words[0], {words.begin() + 1, words.end()}, kept);
}

Result<DataWords> data_words(const std::vector<std::string>& words, size_t first) {
  DataWords out;
  for (size_t i = first; i < words.size(); ++i) {
    if (words[i].find('=') == std::string::npos)
      return usage_error(fmt::format("'{}' is neither data=FILE nor key=value", words[i]));
    if (words[i] == "data=") return usage_error("data= names no file");
    if (words[i].starts_with("data="))
      out.data.push_back(words[i].substr(5));
    else
      out.overrides.push_back(words[i]);
  }
  return out;
}

}  // namespace tidepool
