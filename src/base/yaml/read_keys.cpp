#include "base/yaml/read_keys.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

namespace tidepool {

Error fault_at(const std::string& place, std::string_view text) {
  return {ErrorKind::usage, fmt::format("{}: {}", place, text)};
}

Error not_yaml(std::string_view file, std::string_view text, const YAML::Exception& e) {
  const int line = std::max(e.mark.line, 0);
  for (int i = 0; i < line; ++i) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const std::string_view indent = text.substr(0, text.find_first_not_of(" \t"));
  const bool tab = indent.find('\t') != std::string_view::npos;
  return fault_at(fmt::format("{}:{}", file, line + 1),
                  fmt::format("not valid YAML: {}{}", e.msg,
                              tab ? "; the line begins with a tab: YAML indents with spaces" : ""));
}

std::string place_in(std::string_view file, const YAML::Node& node) {
  return fmt::format("{}:{}", file, std::max(node.Mark().line, 0) + 1);
}

Result<YAML::Node> only_document(std::string_view file, std::string_view text) {
  const std::vector<YAML::Node> all = YAML::LoadAll(std::string(text));
  for (size_t i = 1; i < all.size(); ++i)
    if (!all[i].IsNull())
      return fault_at(place_in(file, all[i]),
                      "a second document, after '---' or '...': join the two into one");
  return all.empty() ? YAML::Node() : all[0];
}

Result<void> read_keys(std::string_view file, const YAML::Node& map, const ReadKey& read) {
  std::set<std::string> seen;
  for (const auto& entry : map) {
    const std::string place = place_in(file, entry.first);
    if (!entry.first.IsScalar()) return fault_at(place, "a key must be a plain word");
    const std::string& key = entry.first.Scalar();
    if (!seen.insert(key).second)
      return fault_at(place, fmt::format("'{}' is here for the second time; keep one of them", key));
    TRY(read(place, key, entry.second));
  }
  return {};
}

Result<void> read_section(std::string_view file, std::string_view section, const YAML::Node& keys,
                          const ReadKey& read) {
  if (!keys.IsMap())
    return fault_at(place_in(file, keys),
                    fmt::format("section '{}' must hold keys, one a line, indented below it", section));
  return read_keys(file, keys, read);
}

}  // namespace tidepool
