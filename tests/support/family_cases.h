// Lists the model directories under tests/golden/families.
#pragma once

#include <string>

#include "tests/support/places.h"

namespace tidepool::test {

inline constexpr const char* family_cases[] = {"deepseek_v3_joined",
                                               "deepseek_v3_one_halves",
                                               "deepseek_v3_queries_yarn",
                                               "deepseek_v3_untied",
                                               "gemma3_linear",
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
                                               "qwen3_untied",
                                               "gpt_oss_all_clamped",
                                               "gpt_oss_one_losses",
                                               "gpt_oss_tied_full",
                                               "gpt_oss_untied",
                                               "mixtral_all",
                                               "mixtral_joined",
                                               "mixtral_one_sliding",
                                               "mixtral_tied_losses",
                                               "mixtral_untied",
                                               "qwen3_moe_all_dense_layers",
                                               "qwen3_moe_joined",
                                               "qwen3_moe_one_yarn",
                                               "qwen3_moe_tied_losses",
                                               "qwen3_moe_two_losses",
                                               "qwen3_moe_untied",
                                               "gemma3_yarn",
                                               "llama_dynamic_long",
                                               "llama_dynamic_short",
                                               "llama_longrope",
                                               "llama_yarn",
                                               "mistral_yarn",
                                               "phi3_longrope_long",
                                               "phi3_longrope_short",
                                               "qwen2_dynamic_long",
                                               "qwen2_yarn",
                                               "qwen3_longrope",
                                               "qwen3_yarn",
                                               "qwen3_5_untied",
                                               "qwen3_5_tied_biases",
                                               "qwen3_5_linear",
                                               "qwen3_next_untied",
                                               "qwen3_next_dense_losses",
                                               "qwen3_next_joined",
                                               "qwen3_5_moe_joined",
                                               "qwen3_5_moe_tied_losses_joined",
                                               "qwen3_5_moe_odd_joined",
                                               "glm4_moe_untied",
                                               "glm4_moe_plain_groups",
                                               "glm4_moe_joined",
                                               "glm4_moe_lite_untied",
                                               "glm4_moe_lite_dense_yarn",
                                               "glm4_moe_lite_joined",
                                               "minimax_m2_untied",
                                               "minimax_m2_rotary_dim",
                                               "minimax_m2_joined",
                                               "ministral3_untied",
                                               "ministral3_tied_sliding",
                                               "ministral3_plain",
                                               "smollm3_tied",
                                               "smollm3_biases",
                                               "smollm3_all_rotated",
                                               "olmo2_untied",
                                               "olmo2_biases_llama3",
                                               "olmo2_tied",
                                               "olmo3_untied",
                                               "olmo3_default_layers",
                                               "olmo3_full_tied",
                                               "exaone4_untied",
                                               "exaone4_tied_full",
                                               "exaone4_listed",
                                               "seed_oss_untied",
                                               "seed_oss_all_biases",
                                               "seed_oss_tied_plain",
                                               "hunyuan_v1_dense_tied",
                                               "hunyuan_v1_dense_alpha",
                                               "hunyuan_v1_dense_biases",
                                               "ernie4_5_tied",
                                               "ernie4_5_untied",
                                               "ernie4_5_llama3",
                                               "granite_tied",
                                               "granite_biases",
                                               "granite_some",
                                               "arcee_untied_yarn",
                                               "arcee_biases",
                                               "arcee_tied",
                                               "gemma2_tied",
                                               "gemma2_biases",
                                               "gemma2_some_caps"};

// Models whose configs and names of tensors are compared with the rows of their families. Those that end with
// _joined have one tensor for all experts of a layer; gpt_oss always has.
inline constexpr const char* expert_family_cases[] = {
    "deepseek_v3_joined",     "deepseek_v3_one_halves", "deepseek_v3_queries_yarn",
    "deepseek_v3_untied",     "gpt_oss_all_clamped",    "gpt_oss_one_losses",
    "gpt_oss_tied_full",      "gpt_oss_untied",         "mixtral_joined",
    "qwen3_moe_joined",       "qwen3_next_untied",      "qwen3_next_dense_losses",
    "qwen3_next_joined",      "qwen3_5_moe_joined",     "qwen3_5_moe_tied_losses_joined",
    "qwen3_5_moe_odd_joined", "glm4_moe_untied",        "glm4_moe_plain_groups",
    "glm4_moe_joined",        "glm4_moe_lite_untied",   "glm4_moe_lite_dense_yarn",
    "glm4_moe_lite_joined",   "minimax_m2_untied",      "minimax_m2_rotary_dim",
    "minimax_m2_joined"};

// Models that read text and images.
inline constexpr const char* wrapper_cases[] = {"qwen3_5", "qwen3_5_moe", "gemma3"};

inline std::string wrapper_directory(const std::string& name) {
  return source_file("tests/golden/wrappers/") + name;
}

inline std::string family_directory(const std::string& name) {
  return source_file("tests/golden/families/") + name;
}

}  // namespace tidepool::test
