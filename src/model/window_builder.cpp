#include "model/window_builder.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/check.h"

namespace tidepool {
namespace {

TensorKind kind_of(const Tensor& tensor, TensorKind given) {
  if (tensor.shape.size() > 1 || given == TensorKind::adapter) return given;
  return tensor.name.ends_with(".weight") ? TensorKind::norm : TensorKind::bias;
}

Tensor tensor_of(TensorSpec& spec, u32 number) {
  Tensor tensor = {.name = std::move(spec.name), .shape = std::move(spec.shape), .number = number};
  tensor.kind = kind_of(tensor, spec.kind);
  tensor.constant = spec.constant;
  tensor.in_out = spec.in_out, tensor.interleaved = spec.interleaved;
  tensor.joined = std::move(spec.joined);
  tensor.elements = 1;
  for (u64 extent : tensor.shape) tensor.elements *= extent;
  tensor.weight_decay = tensor.shape.size() > 1;
  tensor.init = spec.init;
  tensor.init_std = spec.init_std;
  tensor.init_bound = spec.init_bound;
  return tensor;
}

// Tensors of which each but the first is fused with the one before it.
struct Fused {
  std::vector<Tensor> tensors;
  u64 alignment = 1;
  u8 rule = 0;
};

// RETURNS: the first rule that is for all of the tensors, if none begins within a block of its state.
u8 rule_of(const ModelGraph& g, std::span<const Tensor> fused) {
  u8 rule = 0;
  const auto takes_all = [&](const UpdateRule& of) {
    const u64 block = g.state_slots.block_elements(rule);
    return std::ranges::all_of(fused, [&](const Tensor& t) {
      const bool ends_block = &t == &fused.back() || t.elements % block == 0;
      return of.is_for(t) && ends_block;
    });
  };
  while (rule < g.rules.size() && !takes_all(g.rules[rule])) ++rule;
  CHECK(rule < g.rules.size(), fused[0].name, g.rules.size());
  return rule;
}

std::vector<Fused> fuse(const ModelGraph& g, std::vector<TensorSpec>& specs, bool trained) {
  std::vector<Fused> out;
  for (u32 number = 0; number < specs.size(); ++number) {
    CHECK(number > 0 || !specs[number].fused, number);
    if (!specs[number].fused) out.push_back({.tensors = {}, .alignment = specs[number].alignment});
    out.back().tensors.push_back(tensor_of(specs[number], number));
  }
  for (Fused& fused : out)
    if (trained) fused.rule = rule_of(g, fused.tensors);
  return out;
}

// Brings tensors of one rule together, so that a window has few units. What begins on a granule, as an expert
// does, keeps its place.
void sort_by_rule(std::vector<Fused>& all) {
  const auto begins = [](const Fused& fused) { return fused.alignment >= norm_granule_elements; };
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end = std::find_if(begin + 1, all.end(), begins);
    const u64 alignment = std::exchange(begin->alignment, TensorSpec{}.alignment);
    std::stable_sort(begin, end, [](const Fused& a, const Fused& b) { return a.rule < b.rule; });
    begin->alignment = alignment;
    begin = end;
  }
}

}  // namespace

Window make_window(const ModelGraph& g, std::string name, std::vector<TensorSpec> specs, bool trained) {
  Window window = {.name = std::move(name)};
  std::vector<Fused> all = fuse(g, specs, trained);
  sort_by_rule(all);
  for (Fused& fused : all) {
    const bool other_rule = !window.tensors.empty() && window.tensors.back().rule != fused.rule;
    // Vectors and adapters are small: those of a rule share a unit.
    const Tensor& first = fused.tensors[0];
    const bool small = first.shape.size() < 2 || first.kind == TensorKind::adapter;
    const bool alone = g.rules[fused.rule].unit == UnitKind::tensor && !small;
    const bool unit = trained && (other_rule || alone);
    u64 alignment = std::lcm(fused.alignment, unit ? g.state_slots.unit_alignment() : 1);
    if (trained) alignment = std::lcm(alignment, g.state_slots.block_elements(fused.rule));
    window.elements = round_up(window.elements, alignment);
    for (Tensor& tensor : fused.tensors) {
      tensor.rule = fused.rule;
      if (trained && g.rules[fused.rule].weight_decay && !tensor.constant) tensor.weight_decay = true;
      tensor.window_offset = tensor.stored_offset = window.elements;
      tensor.stored_elements = tensor.elements;
      window.elements += tensor.elements;
      window.parameters += tensor.elements;
      window.tensors.push_back(std::move(tensor));
    }
  }
  window.elements = round_up(window.elements, cut_alignment_elements);
  return window;
}

}  // namespace tidepool
