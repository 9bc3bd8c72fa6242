// Fuzzes configs. An accepted config is the same after it is written and read.
#include "base/check.h"
#include "config/config.h"
#include "config_files/load_config.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {

void config(std::string_view input) {
  const Result<Config> config =
      parse_config(input, "fuzz.yaml", {"data.train=x", "memory.device=1GiB", "memory.host=1GiB"});
  if (!config && config.error().kind == ErrorKind::bad_input) {
    // Error of a directory that `model:` names, which may be any existing directory.
    CHECK(config.error().message.find("config.json") != std::string::npos, config.error().message);
    return;
  }
  if (!config) return check_refusal(config.error(), {ErrorKind::usage});
  const std::string text = to_yaml(*config);
  const Result<Config> again = parse_config(text, "fuzz.yaml", {});
  CHECK(again.has_value(), again.error().message, text);
  CHECK(*again == *config, text);
}

}  // namespace tidepool::fuzz
