// config.json of a model. What is taken reads back as itself from what is written of it.
#include "config/hf_config.h"

#include "tests/fuzz/fuzz.h"
#include "tidepool/check.h"

namespace tidepool::fuzz {

void hf_config(std::string_view input) {
  const Result<ModelConfig> config = parse_hf_config(input, ErrorKind::bad_input, "fuzz.json");
  if (!config) return check_refusal(config.error());
  const std::string text = hf_config_text(*config, Precision::bf16);
  const Result<ModelConfig> again = parse_hf_config(text, ErrorKind::bad_input, "fuzz.json");
  CHECK(again.has_value(), again.error().message, text);
  CHECK(hf_config_text(*again, Precision::bf16) == text, text);
}

}  // namespace tidepool::fuzz
