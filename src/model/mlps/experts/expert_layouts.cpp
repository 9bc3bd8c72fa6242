#include "model/mlps/experts/expert_layouts.h"

#include <algorithm>

namespace tidepool {
namespace {

u64 rows_max(const ModelGraph& g, ExpertRange range) {
  return routed_rows_max(g.batch.tile_rows(), g.config.experts.chosen, range.count);
}

Values take_inner(const ModelGraph& g, ExpertRange range, u32 arrays, WorkspaceCutter& layout) {
  return layout.take_values(g.activations, rows_max(g, range) * arrays * g.config.expert_inner());
}

Values take_rows(const ModelGraph& g, ExpertRange range, WorkspaceCutter& layout) {
  return layout.take_values(g.activations, rows_max(g, range) * g.config.width);
}

u32 expert_layers(const ModelConfig& c) { return expert_layer_index(c, c.layers); }

}  // namespace

u32 expert_layer_index(const ModelConfig& c, u32 layer) {
  u32 index = 0;
  for (u32 before = 0; before < layer; ++before) index += c.has_experts(before);
  return index;
}

RouterRule router_rule(const ModelConfig& c) {
  const auto scores = [&] {
    switch (traits(c.family).experts->router) {
      case RouterKind::softmax:
        return RouterScores::softmax;
      case RouterKind::softmax_of_chosen:
        return RouterScores::chosen_softmax;
      case RouterKind::sigmoid_in_groups:
        return RouterScores::sigmoid;
    }
    return RouterScores::softmax;
  };
  return {.experts = c.experts.count,
          .chosen = c.experts.chosen,
          .scores = scores(),
          .normalise = c.experts.normalise,
          // The factor on outputs of MLPs is one on the weights of experts, which every output has.
          .scale = static_cast<float>(c.experts.scale * c.factors.residual),
          .groups = c.experts.groups,
          .chosen_groups = c.experts.chosen_groups};
}

GluGate expert_gate(const ModelConfig& c) {
  switch (traits(c.family).experts->activation) {
    case ExpertActivation::swiglu:
      return GluGate::silu;
    case ExpertActivation::clamped_swiglu:
      return GluGate::clamped;
    case ExpertActivation::squared_relu:
      return GluGate::squared_relu;
    case ExpertActivation::geglu:
      return GluGate::gelu;
  }
  return GluGate::silu;
}

RoutesLayout::RoutesLayout(const ModelGraph& g, std::byte* base) {
  const u64 choices = g.batch.tile_rows() * g.config.experts.chosen;
  WorkspaceCutter layout(base);
  experts = layout.take<i32>(choices);
  weights = layout.take<float>(choices);
  bytes = layout.bytes();
}

void make_even_routes(const ModelGraph& g, std::byte* piece) {
  const Experts& experts = g.config.experts;
  for (u32 tile = 0; tile < g.batch.tiles_of_piece(); ++tile) {
    const RoutesLayout routes(g, piece);
    for (u64 choice = 0; choice < g.batch.tile_rows() * experts.chosen; ++choice) {
      routes.experts[choice] = static_cast<i32>(choice % experts.count);
      routes.weights[choice] = 1.0f / static_cast<float>(experts.chosen);
    }
    piece += routes.bytes.value;
  }
}

RouterSumsLayout::RouterSumsLayout(const ModelGraph& g, std::byte* base) {
  const u64 layers = expert_layers(g.config), experts = g.config.experts.count;
  WorkspaceCutter layout(base);
  counts = layout.take<i32>(layers * experts);
  probabilities = layout.take<double>(layers * experts);
  entropy = layout.take<double>(layers);
  z = layout.take<double>(layers);
  bytes = layout.bytes();
}

RouterSums RouterSumsLayout::of(u32 index, u32 experts) const {
  return {.counts = counts + u64{index} * experts,
          .probabilities = probabilities + u64{index} * experts,
          .entropy = entropy + index,
          .z = z + index};
}

StreamSizes stream_sizes(const ModelGraph& g) {
  StreamSizes sizes{.residual = g.boundary};
  sizes.layer_inputs = {round_up(
      values_bytes(g.batch.piece_rows() * g.config.layer_inputs_width(), g.activations), frame_alignment)};
  for (u32 layer = 0; layer < g.config.layers; ++layer)
    sizes.shared_keys[g.config.is_global(layer)] = {round_up(
        values_bytes(g.batch.piece_rows() * 2 * g.config.key_width(layer), g.activations), frame_alignment)};
  if (g.config.experts.count == 0) return sizes;
  const auto whole = [](u64 bytes) { return Bytes{round_up(bytes, frame_alignment)}; };
  sizes.normed = g.boundary;
  const u64 rows = g.batch.piece_rows();
  sizes.routes = RoutesLayout(g, nullptr).bytes * g.batch.tiles_of_piece();
  sizes.routes_grad = whole(rows * g.config.experts.chosen * sizeof(float));
  sizes.sum = whole(rows * g.config.width * sizeof(float));
  sizes.branches = whole(values_bytes(2 * rows * g.config.width, g.activations));
  sizes.router_sums = RouterSumsLayout(g, nullptr).bytes;
  return sizes;
}

SortedRows::SortedRows(const ModelGraph& g, ExpertRange range, WorkspaceCutter& layout)
    : offsets(layout.take<i32>(range.count + 1)),
      slots(layout.take<i32>(rows_max(g, range))),
      places(layout.take<i32>(g.batch.tile_rows() * g.config.experts.chosen)) {}

GroupAdapterScratch::GroupAdapterScratch(const ModelGraph& g, u32 layer, ExpertRange range,
                                         WorkspaceCutter& layout) {
  if (g.adapters.empty()) return;
  u64 r = 0;
  for (const ExpertAdapter& adapter : g.adapters[layer].experts) r = std::max<u64>(r, adapter.r);
  if (r == 0) return;
  low = layout.take_values(g.activations, rows_max(g, range) * r);
  low_grad = layout.take_values(g.activations, rows_max(g, range) * r);
}

ExpertsInside::ExpertsInside(const ModelGraph& g, ExpertRange range, std::byte* base) {
  WorkspaceCutter layout(base);
  gate_up = take_inner(g, range, glu_inputs(expert_gate(g.config)), layout);
  bytes = layout.bytes();
}

ExpertsForwardWorkspace::ExpertsForwardWorkspace(const ModelGraph& g, u32 layer, ExpertRange range,
                                                 std::byte* base)
    : ExpertsForwardWorkspace(g, layer, range, WorkspaceCutter(base)) {}

ExpertsForwardWorkspace::ExpertsForwardWorkspace(const ModelGraph& g, u32 layer, ExpertRange range,
                                                 WorkspaceCutter layout)
    : sorted(g, range, layout),
      rows(take_rows(g, range, layout)),
      gate_up(take_inner(g, range, glu_inputs(expert_gate(g.config)), layout)),
      inner(take_inner(g, range, 1, layout)),
      adapters(g, layer, range, layout),
      bytes(layout.bytes()) {}

ExpertsBackwardWorkspace::ExpertsBackwardWorkspace(const ModelGraph& g, u32 layer, ExpertRange range,
                                                   std::byte* base)
    : ExpertsBackwardWorkspace(g, layer, range, WorkspaceCutter(base)) {}

ExpertsBackwardWorkspace::ExpertsBackwardWorkspace(const ModelGraph& g, u32 layer, ExpertRange range,
                                                   WorkspaceCutter layout)
    : sorted(g, range, layout),
      rows(take_rows(g, range, layout)),
      dout(take_rows(g, range, layout)),
      inner(take_inner(g, range, 1, layout)),
      dgate_up(take_inner(g, range, glu_inputs(expert_gate(g.config)), layout)),
      gate_up(dgate_up),
      adapters(g, layer, range, layout),
      bytes(layout.bytes()) {}

}  // namespace tidepool
