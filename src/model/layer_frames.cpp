#include "model/layer_frames.h"

#include "model/attention.h"
#include "model/layer_parts.h"

namespace tidepool {
namespace {

bool has_router(LayerPart part) { return part.mlp == MlpKind::experts; }

Values take_values(const ModelGraph& g, u32 layer, LayerPart part, WorkspaceCutter& layout) {
  return layout.take_values(g.activations, g.batch.tile_rows() * mlp_widths(g, layer, part).values);
}

Branch take_branch(const ModelGraph& g, WorkspaceCutter& layout) {
  const u64 rows = g.batch.tile_rows();
  return {.value = layout.take_values(g.activations, rows * g.config.width),
          .rstd = layout.take<float>(rows)};
}

std::byte* take_inside(const ModelGraph& g, u32 layer, LayerPart part, WorkspaceCutter& layout) {
  return layout.take<std::byte>(LayerInside(g, layer, part, nullptr).bytes.value);
}

}  // namespace

Values take_dropped(const ModelGraph& g, WorkspaceCutter& layout) {
  const ModelConfig& c = g.config;
  const bool drops = style(c.family).residual_dropout && c.residual_dropout > 0;
  return drops || c.factors.residual != 1 ? layout.take_values(g.activations, g.batch.tile_rows() * c.width)
                                          : Values{};
}

MlpWidths mlp_widths(const ModelGraph& g, u32 layer) {
  return mlp_widths(g, layer, first_part(g.config, layer));
}

MlpWidths mlp_widths(const ModelGraph& g, u32 layer, LayerPart part) {
  return mlp_row(part.mlp).widths(g.config, layer);
}

LayerInside::LayerInside(const ModelGraph& g, u32 layer, LayerPart part, std::byte* base) {
  WorkspaceCutter layout(base);
  mixer = layout.take<std::byte>(mixer_row(part.mixer).inside_bytes(g, layer));
  const bool mixes = part.mixer != MixerKind::none, has_mlp = part.mlp != MlpKind::none;
  if (mixes && has_mlp)
    post_attention = layout.take_values(g.activations, g.batch.tile_rows() * g.config.width);
  values = take_values(g, layer, part, layout);
  if (style(g.config.family).branch_norms) {
    if (mixes) attention_branch = take_branch(g, layout);
    if (has_mlp) mlp_branch = take_branch(g, layout);
  }
  if (part.ends && g.config.layer_inputs.on()) {
    before_inputs = layout.take_values(g.activations, g.batch.tile_rows() * g.config.width);
    input_values = layout.take_values(g.activations, g.batch.tile_rows() * 2 * g.config.layer_inputs.width);
    inputs_branch = take_branch(g, layout);
  }
  bytes = layout.bytes();
}

LayerPast::LayerPast(const ModelGraph& g, u32 layer, LayerPart part, std::byte* base) {
  if (!g.batch.tiled()) return;
  const PastBytes each = mixer_row(part.mixer).past_bytes(g, layer);
  of_sequence = each.values, grad_of_sequence = each.gradients;
  bytes = {round_up(g.batch.sequences * each.values, frame_alignment)};
  grad_bytes = {round_up(g.batch.sequences * each.gradients, frame_alignment)};
  if (base == nullptr || each.values == 0) return;
  values = base, grad = base + bytes.value;
}

InputsScratch::InputsScratch(const ModelGraph& g, WorkspaceCutter& layout) {
  if (!g.config.layer_inputs.on()) return;
  const u64 elements = g.batch.tile_rows() * g.config.layer_inputs.width;
  values = layout.take_values(g.activations, 2 * elements);
  inner = layout.take_values(g.activations, elements);
  narrow = layout.take_values(g.activations, elements);
}

LayerForwardFrame::LayerForwardFrame(const ModelGraph& g, u32 layer, LayerPart part, std::byte* base) {
  const Mixer& mixer = mixer_row(part.mixer);
  WorkspaceCutter layout(base);
  buffers = mixer.forward_frame(g, layer, mlp_widths(g, layer, part), layout);
  adapters = adapter_scratch(g, layout);
  if (has_router(part)) router = router_scratch(g, layout, Direction::forward);
  if (part.ends) inputs = InputsScratch(g, layout);
  if (mixer.inside_always) inside = take_inside(g, layer, part, layout);
  bytes = layout.bytes();
}

LayerBackwardFrame::LayerBackwardFrame(const ModelGraph& g, u32 layer, LayerPart part, std::byte* base,
                                       Inside from) {
  const Mixer& mixer = mixer_row(part.mixer);
  WorkspaceCutter layout(base);
  buffers = mixer.backward_frame(g, layer, mlp_widths(g, layer, part), layout);
  adapters = adapter_scratch(g, layout);
  if (has_router(part)) router = router_scratch(g, layout, Direction::backward);
  if (part.ends) inputs = InputsScratch(g, layout);
  mixer.inside_always ? take_apart(g, layer, part, layout, from)
                      : take_in_place(g, layer, part, layout, from);
  bytes = layout.bytes();
}

// In a recomputed inside, the gradient overwrites the values whose gradient it is. Without an MLP,
// attention's scratch has a place of its own.
void LayerBackwardFrame::take_in_place(const ModelGraph& g, u32 layer, LayerPart part,
                                       WorkspaceCutter& layout, Inside from) {
  const u64 scratch_bytes = attention_scratch(g).value;
  if (from == Inside::recomputed) inside = take_inside(g, layer, part, layout);
  if (mlp_widths(g, layer, part).values == 0) {
    if (part.mixer == MixerKind::none) return;
    scratch = {layout.take<std::byte>(scratch_bytes), scratch_bytes};
    return;
  }
  dvalues = from == Inside::recomputed ? LayerInside(g, layer, part, inside).values
                                       : take_values(g, layer, part, layout);
  scratch = {dvalues.data, scratch_bytes};
}

void LayerBackwardFrame::take_apart(const ModelGraph& g, u32 layer, LayerPart part, WorkspaceCutter& layout,
                                    Inside from) {
  const u64 scratch_bytes = attention_scratch(g).value;
  dvalues = take_values(g, layer, part, layout);
  scratch = {layout.take<std::byte>(scratch_bytes), scratch_bytes};
  if (from == Inside::recomputed) inside = take_inside(g, layer, part, layout);
}

}  // namespace tidepool
