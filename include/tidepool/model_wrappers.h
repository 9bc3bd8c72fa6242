// ModelWrapper is a model that holds a text model beside other parts, such as one that reads images. Its
// config.json has the text model's config under one key, and its files have the text model's tensors under
// longer names. Only the text model is trained.
#pragma once

#include <array>
#include <string_view>

#include "tidepool/model_config.h"

namespace tidepool {

struct ModelWrapper {
  // A key that a wrapper's text config may leave out although text models must name it.
  struct LeftOutKey {
    std::string_view key;
    u32 value = 0;
  };
  std::string_view name;  // `model_type` in config.json
  Family text{};          // family of the text model
  std::array<LeftOutKey, 2> left_out{};
};

// A new wrapper is a row: transformers' names of text tensors within wrappers are alike (text_tensor_name()).
inline constexpr std::array<ModelWrapper, 4> model_wrappers = {{
    {.name = "gemma3",
     .text = Family::gemma3_text,
     .left_out = {{{"vocab_size", 262208}, {"num_attention_heads", 8}}}},
    {.name = "qwen3_5", .text = Family::qwen3_5_text},
    {.name = "qwen3_5_moe", .text = Family::qwen3_5_moe_text},
    {.name = "gemma4", .text = Family::gemma4_text},
}};

// RETURNS: null if the model type is no wrapper's.
constexpr const ModelWrapper* find_wrapper(std::string_view model_type) {
  for (const ModelWrapper& wrapper : model_wrappers)
    if (wrapper.name == model_type) return &wrapper;
  return nullptr;
}

constexpr bool has_wrapper(Family family) {
  for (const ModelWrapper& wrapper : model_wrappers)
    if (wrapper.text == family) return true;
  return false;
}

}  // namespace tidepool
