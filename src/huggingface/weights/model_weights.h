// open_model_weights() opens the weights of a model directory under the names that the model has for them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "huggingface/weights/safetensors.h"
#include "tidepool/model_config.h"

namespace tidepool {

inline constexpr const char* head_tensor = "lm_head.weight";
// In the place of the head, in classifiers; the bias in those of tokens.
inline constexpr const char *score_tensor = "score.weight", *score_bias = "score.bias";
inline bool is_score(std::string_view tensor) { return tensor == score_tensor || tensor == score_bias; }

// Opens all files, and renames tensors as transformers does while it loads a model with its head:
// - Names without the base model's prefix, as AutoModel writes them, get it: "layers.0.mlp..." becomes
//   "model.layers.0.mlp...".
// - Names within a wrapper become the text model's: "model.language_model.norm.weight" becomes
//   "model.norm.weight". Tensors of other parts, such as "model.visual...", keep their names.
// - If the model is tied and its one matrix is in the files as the head's, it becomes the embedding's.
// Error: as SafetensorsModel::open(); bad_input if two tensors would have the same name.
Result<std::unique_ptr<SafetensorsModel>> open_model_weights(const std::string& directory,
                                                             const ModelConfig&);

// RETURNS: the embedding's tensor, with or without the base model's prefix; nothing if there is none.
SafetensorsModel::Location find_embedding(const SafetensorsModel&, Family);

}  // namespace tidepool
