// Fuzzes a model's config.json. An accepted config is the same after it is written and read, alone and over
// the source.
#include "base/check.h"
#include "huggingface/directory/hf_config.h"
#include "tests/fuzz/fuzz.h"

namespace tidepool::fuzz {

void hf_config(std::string_view input) {
  const Result<ModelConfig> config = parse_hf_config(input, ErrorKind::bad_input, "fuzz.json");
  if (!config) return check_refusal(config.error());
  const std::string text = hf_config_text(*config, Precision::bf16);
  for (const std::string& written : {text, hf_config_text(*config, Precision::bf16, input)}) {
    const Result<ModelConfig> again = parse_hf_config(written, ErrorKind::bad_input, "fuzz.json");
    CHECK(again.has_value(), again.error().message, written);
    CHECK(hf_config_text(*again, Precision::bf16) == text, written);
  }
}

}  // namespace tidepool::fuzz
