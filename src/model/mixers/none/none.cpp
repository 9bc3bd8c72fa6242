#include "model/mixers/none/none.h"

#include <algorithm>

namespace tidepool::no_mixer {
namespace {

Values take(const ModelGraph& g, WorkspaceCutter& layout, u32 columns) {
  return layout.take_values(g.activations, g.batch.tile_rows() * columns);
}

void add_tensors(const ModelConfig&, u32, LayerTensors&) {}
std::optional<AttentionShape> no_attention(const ModelGraph&, u32) { return std::nullopt; }
u64 inside_bytes(const ModelGraph&, u32) { return 0; }
PastBytes past_bytes(const ModelGraph&, u32) { return {}; }

// Values and inner values of a gated MLP are apart; others overwrite the values.
ForwardBuffers take_forward(const ModelGraph& g, u32, MlpWidths mlp, WorkspaceCutter& layout) {
  ForwardBuffers out = {.norm = take(g, layout, g.config.width)};
  if (mlp.apart) out.values = take(g, layout, mlp.values);
  out.inner = take(g, layout, mlp.inner);
  return out;
}

BackwardBuffers take_backward(const ModelGraph& g, u32, MlpWidths mlp, WorkspaceCutter& layout) {
  return {.norm = take(g, layout, g.config.width),
          .narrow = take(g, layout, std::max(g.config.width, mlp.spare)),
          .inner = take(g, layout, mlp.inner),
          .dropped = take_dropped(g, layout),
          .moments = norm_scratch(g, layout)};
}

}  // namespace

const Mixer row = {.tensors = add_tensors,
                   .attention = no_attention,
                   .inside_always = false,
                   .past_bytes = past_bytes,
                   .inside_bytes = inside_bytes,
                   .forward_frame = take_forward,
                   .backward_frame = take_backward};

}  // namespace tidepool::no_mixer
