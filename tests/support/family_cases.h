// Lists the model directories under tests/golden/families.
#pragma once

#include <string>

namespace tidepool::test {

inline constexpr const char* family_cases[] = {"gemma3_linear",
                                               "gemma3_sliding",
                                               "gemma3_text",
                                               "gpt2_inner",
                                               "gpt2_one_head",
                                               "gpt2_plain",
                                               "llama_biases_linear_head_dim",
                                               "llama_tied",
                                               "llama_tied_llama3",
                                               "llama_untied_llama3",
                                               "mistral_linear",
                                               "mistral_sliding",
                                               "mistral_tied_head_dim",
                                               "mistral_untied",
                                               "mistral_window",
                                               "phi3_partial",
                                               "phi3_tied_window",
                                               "phi3_untied",
                                               "qwen2_linear",
                                               "qwen2_sliding",
                                               "qwen2_tied",
                                               "qwen2_untied",
                                               "qwen2_window",
                                               "qwen3_biases_linear",
                                               "qwen3_tied_head_dim",
                                               "qwen3_untied"};

inline std::string family_directory(const std::string& name) {
  return TIDEPOOL_SOURCE_DIR "/tests/golden/families/" + name;
}

}  // namespace tidepool::test
