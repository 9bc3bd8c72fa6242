#include "model/mlps/experts/expert_windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "kernels/gradient/gradient.h"
#include "model/decoder_windows.h"
#include "optimizers/optimizer.h"

namespace tidepool {
namespace {

TensorSpec matrix_spec(const ModelConfig& c, std::string name, std::vector<u64> shape) {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .init = Init::normal,
          .init_std = c.initializer_range,
          .kind = TensorKind::expert};
}

// Matrices [out, in] with names of their own.
std::vector<TensorSpec> single_specs(const ModelConfig& c, const std::string& layer, u32 expert) {
  const ExpertTensors& names = traits(c.family).experts->tensors;
  const u64 h = c.width, inner = c.expert_inner();
  const auto spec = [&](std::string_view matrix, std::vector<u64> shape) {
    return matrix_spec(c, fmt::format("{}.{}.{}.{}.weight", layer, names.single, expert, matrix),
                       std::move(shape));
  };
  if (!names.has_gate()) return {spec(names.up, {inner, h}), spec(names.down, {h, inner})};
  std::vector<TensorSpec> specs = {spec(names.gate, {inner, h}), spec(names.up, {inner, h}),
                                   spec(names.down, {h, inner})};
  specs[1].fused = true;
  return specs;
}

// Matrices [in, out], as the joined tensors of files have them, and biases.
std::vector<TensorSpec> in_out_specs(const ModelConfig& c, const std::string& layer, u32 expert) {
  const ExpertTensors& names = traits(c.family).experts->tensors;
  const u64 h = c.width, inner = c.expert_inner();
  const std::string prefix = fmt::format("{}.{}.{}", layer, names.joined, expert);
  std::vector<TensorSpec> specs = {matrix_spec(c, prefix + ".gate_up_proj", {h, 2 * inner}),
                                   {.name = prefix + ".gate_up_proj_bias", .shape = {2 * inner}},
                                   matrix_spec(c, prefix + ".down_proj", {inner, h}),
                                   {.name = prefix + ".down_proj_bias", .shape = {h}}};
  specs[0].joined = {inner, inner}, specs[0].interleaved = true;
  specs[0].in_out = specs[2].in_out = true;
  if (!names.biases) specs = {specs[0], specs[2]};
  return specs;
}

}  // namespace

std::vector<TensorSpec> expert_specs(const ModelConfig& c, u32 layer, u32 expert) {
  const std::string prefix = fmt::format("{}.{}", style(c.family).tensors_path, layer);
  std::vector<TensorSpec> specs = traits(c.family).experts->tensors.single.empty()
                                      ? in_out_specs(c, prefix, expert)
                                      : single_specs(c, prefix, expert);
  specs[0].alignment = norm_granule_elements;
  return specs;
}

ExpertPlaces expert_places(const Window& window, u32 experts) {
  const auto at = [&](u64 number) { return window.tensor(number).window_offset; };
  const u64 per_expert = window.tensors.size() / experts;
  // Matrices of names of their own: gate, up, down, or without gate. Else gate with up, and down, each with
  // or without a bias.
  const bool biases = per_expert == 4;
  return {.gate_up = at(0),
          .gate_up_bias = biases ? at(1) : 0,
          .down = at(biases ? 2 : per_expert - 1),
          .down_bias = biases ? at(3) : 0,
          .stride = experts > 1 ? at(per_expert) - at(0) : round_up(window.elements, norm_granule_elements)};
}

u64 expert_elements(const ModelConfig& config, Precision precision, std::vector<UpdateRule> rules) {
  ModelGraph g = {.config = config, .precision = precision};
  g.state_slots = state_slots(precision, rules);
  g.rules = std::move(rules);
  if (!wrong_with_expert_rules(g).empty()) return 0;  // build_model() refuses it
  return expert_places(expert_window(g, 0, {0, 2}), 2).stride;
}

u32 expert_groups(const ModelGraph& g) {
  return static_cast<u32>(div_up(g.config.experts.count, g.experts_per_group));
}

ExpertRange experts_of_group(const ModelGraph& g, u32 group) {
  const u32 first = group * g.experts_per_group;
  return {first, std::min(g.experts_per_group, g.config.experts.count - first)};
}

Window expert_window(const ModelGraph& g, u32 layer, ExpertRange range) {
  std::vector<TensorSpec> specs;
  for (u32 expert = range.first; expert < range.first + range.count; ++expert)
    for (TensorSpec& spec : expert_specs(g.config, layer, expert)) specs.push_back(std::move(spec));
  const u32 last = range.first + range.count - 1;
  const std::string numbers =
      range.count == 1 ? fmt::format("{}", last) : fmt::format("{}-{}", range.first, last);
  Window window = model_window(g, fmt::format("layers.{}.experts.{}", layer, numbers), std::move(specs));
  const u64 per_expert = window.tensors.size() / range.count,
            stride = expert_places(window, range.count).stride;
  for (u64 t = per_expert; t < window.tensors.size(); ++t)  // kernels step from expert to expert
    CHECK(window.tensors[t].window_offset == window.tensors[t - per_expert].window_offset + stride, t,
          stride);
  window.group = fmt::format("layers.{}.experts", layer), window.group_begin = range.first * stride;
  return window;
}

std::string wrong_with_expert_rules(const ModelGraph& g) {
  const auto has_names = [](const UpdateRule& rule) { return !rule.tensors.names.empty(); };
  if (std::ranges::none_of(g.rules, has_names)) return "";
  const auto rules_of = [&](u32 layer, u32 expert) {
    const Window alone = model_window(g, "", expert_specs(g.config, layer, expert));
    std::vector<u8> rules;
    for (u64 number = 0; number < alone.tensors.size(); ++number) rules.push_back(alone.tensor(number).rule);
    return rules;
  };
  for (u32 layer = 0; layer < g.config.layers; ++layer)
    for (u32 expert = 1; g.config.has_experts(layer) && expert < g.config.experts.count; ++expert)
      if (rules_of(layer, expert) != rules_of(layer, 0))
        return fmt::format(
            "train.optim_groups: experts 0 and {} of layer {} are in different groups; name all experts of a "
            "layer "
            "alike, as *.experts.* does",
            expert, layer);
  return "";
}

}  // namespace tidepool
