#include "model/window_builder.h"

#include <numeric>

#include "base/check.h"

namespace tidepool {
namespace {

void append(const ModelGraph& g, Window& window, TensorSpec spec) {
  Tensor tensor = {.name = std::move(spec.name), .shape = std::move(spec.shape)};
  tensor.elements = 1;
  for (u64 extent : tensor.shape) tensor.elements *= extent;
  tensor.weight_decay = tensor.shape.size() > 1;
  tensor.init = spec.init;
  tensor.init_std = spec.init_std;
  tensor.init_bound = spec.init_bound;
  tensor.rule = rule_of(g.rules, tensor);
  const bool other_rule = !window.tensors.empty() && window.tensors.back().rule != tensor.rule;
  CHECK(!(spec.fused && other_rule), window.tensors.size());
  const bool unit = other_rule || g.rules[tensor.rule].unit == UnitKind::tensor;
  const u64 alignment = std::lcm(spec.alignment, unit ? g.state_slots.unit_alignment() : 1);
  tensor.window_offset = spec.fused ? window.elements : round_up(window.elements, alignment);
  tensor.stored_offset = tensor.window_offset, tensor.stored_elements = tensor.elements;
  window.elements = tensor.window_offset + tensor.elements;
  window.parameters += tensor.elements;
  window.tensors.push_back(std::move(tensor));
}

}  // namespace

Window make_window(const ModelGraph& g, std::string name, std::vector<TensorSpec> specs) {
  Window window = {.name = std::move(name)};
  for (TensorSpec& spec : specs) append(g, window, std::move(spec));
  window.elements = round_up(window.elements, cut_alignment_elements);
  return window;
}

}  // namespace tidepool
