// Names of tensors in files of wrappers (tidepool/model_wrappers.h), which hold a text model beside other
// parts.
#pragma once

#include <string>
#include <string_view>

#include "huggingface/weights/safetensors.h"

namespace tidepool {

// Name that the text model has for a tensor or a module of a wrapper: "model.layers.0.mlp" for
// "model.language_model.layers.0.mlp". Names of other parts stay as they are.
std::string text_tensor_name(std::string_view name);

// True if the name, as open_model_weights() returns it, is that of a tensor of a rotary family's model.
bool is_text_tensor(std::string_view name);

// Parts of a model that are not trained, by the names of their tensors in files.
bool is_of_vision(std::string_view name);
bool is_of_extra_prediction(std::string_view name);  // of several tokens ahead

// RETURNS: a name of the text model, as the file of tensor `t` would spell it: `t` was renamed from there.
std::string name_in_file_of(const StoredTensor& t, std::string_view name);

}  // namespace tidepool
