#include "model/window_builder.h"

namespace tidepool {
namespace {

void append(Window& window, TensorSpec spec) {
  Tensor tensor = {.name = std::move(spec.name), .shape = std::move(spec.shape)};
  tensor.window_offset = spec.joined ? window.elements : round_up(window.elements, spec.alignment);
  tensor.elements = 1;
  for (u64 extent : tensor.shape) tensor.elements *= extent;
  tensor.stored_offset = tensor.window_offset, tensor.stored_elements = tensor.elements;
  tensor.weight_decay = tensor.shape.size() > 1;
  tensor.init = spec.init;
  tensor.init_std = spec.init_std;
  tensor.init_bound = spec.init_bound;
  window.elements = tensor.window_offset + tensor.elements;
  window.parameters += tensor.elements;
  window.tensors.push_back(std::move(tensor));
}

}  // namespace

Window make_window(std::string name, std::vector<TensorSpec> specs) {
  Window window = {.name = std::move(name)};
  for (TensorSpec& spec : specs) append(window, std::move(spec));
  window.elements = round_up(window.elements, cut_alignment_elements);
  return window;
}

}  // namespace tidepool
