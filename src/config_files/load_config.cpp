// Reads a config file as text and checks its encoding, before it is parsed as YAML.
#include "config_files/load_config.h"

#include "base/read_file.h"
#include "base/text/utf8.h"

namespace tidepool {

Result<Config> load_config(const std::string& path, const std::vector<std::string>& overrides,
                           KeptModel kept) {
  TRY_ASSIGN(const std::string text,
             read_written_file(path, {.what = "the config", .advice = "name a YAML file"}));
  TRY(check_is_utf8(path, text, ErrorKind::usage));
  return parse_config(text, path, overrides, kept);
}

}  // namespace tidepool
