#include "model/mixers/latent/frames.h"

#include <algorithm>

namespace tidepool::latent {
namespace {

u64 widest_latent(const ModelGraph& g) {
  return std::max(g.config.latent.q_lora_rank, g.config.latent.kv_lora_rank);
}

Values take(const ModelGraph& g, WorkspaceCutter& layout, u64 columns) {
  return layout.take_values(g.activations, g.batch.tile_rows() * columns);
}

}  // namespace

LatentShape shape_of(const ModelGraph& g) {
  const LatentAttention& l = g.config.latent;
  return {.rows = static_cast<u32>(g.batch.tile_rows()),
          .tokens = g.batch.tiled() ? g.batch.tile_tokens : g.batch.tokens,
          .heads = g.config.attention.heads,
          .kv_lora_rank = l.kv_lora_rank,
          .qk_nope_head_dim = l.qk_nope_head_dim,
          .qk_rope_head_dim = l.qk_rope_head_dim,
          .v_head_dim = l.v_head_dim,
          .interleaved = l.interleaved,
          .factor = static_cast<float>(g.config.attention.rope.rotary_factor())};
}

AttentionInside::AttentionInside(const ModelGraph& g, u32 layer, WorkspaceCutter& layout) {
  const LatentShape s = shape_of(g);
  q_low = take(g, layout, g.config.latent.q_lora_rank);
  low = take(g, layout, s.low_columns());
  qkv = take(g, layout, s.columns());
  attention = take(g, layout, u64{s.heads} * s.v_head_dim);
  lse = layout.take<float>(attention_shape(g, layer)->lse_elements());
}

LatentScratch::LatentScratch(const ModelGraph& g, u32 layer, WorkspaceCutter& layout) {
  const LatentShape s = shape_of(g);
  q = take(g, layout, std::max(s.q_columns(), mlp_widths(g, layer).inner));
  kv = take(g, layout, s.kv_columns());
  latent = take(g, layout, s.kv_lora_rank);
  normed = take(g, layout, widest_latent(g));
}

ForwardFrame::ForwardFrame(const ModelGraph& g, u32 layer, WorkspaceCutter& layout)
    : norm(take(g, layout, g.config.width)), latents(g, layer, layout) {}

BackwardFrame::BackwardFrame(const ModelGraph& g, u32 layer, WorkspaceCutter& layout)
    : norm(take(g, layout, g.config.width)),
      narrow(
          take(g, layout, std::max(g.config.width, g.config.attention.heads * g.config.latent.v_head_dim))),
      latents(g, layer, layout),
      dqkv(take(g, layout, shape_of(g).columns())),
      dlatent(take(g, layout, widest_latent(g))),
      dlow(take(g, layout, shape_of(g).low_columns())),
      moments(norm_scratch(g, layout, rms_norm_partials(g.batch.tile_rows(), widest_latent(g)))),
      latent_rstd(layout.take<float>(g.batch.tile_rows())) {}

}  // namespace tidepool::latent
