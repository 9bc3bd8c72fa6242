// Reads the words `CONFIG.yaml [key=value ...]` of commands that take a config.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config_files/load_config.h"

namespace tidepool {

inline constexpr std::string_view config_words = "CONFIG.yaml [key=value ...]";
inline constexpr std::string_view override_help =
    "\nkey=value overrides the config, for example  learning_rate=1e-4  or\n"
    "memory.device=2GiB. The section may be left out if the key is unique.\n"
    "'tidepool config' lists all keys.\n";

// RETURNS: the config of `words`. ErrorKind::usage if a word after the config is not an override; other
// errors are those of load_config().
Result<Config> config_of(const std::vector<std::string>& words, KeptModel = KeptModel::unread);

// The words `[data=FILE ...] [key=value ...]`. data=FILE is no key of the config, but a file to read.
struct DataWords {
  std::vector<std::string> data, overrides;
};
// `first`: the number of words before them. ErrorKind::usage if a word is neither.
Result<DataWords> data_words(const std::vector<std::string>& words, size_t first);

}  // namespace tidepool
