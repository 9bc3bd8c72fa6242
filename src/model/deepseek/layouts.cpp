#include "model/deepseek/layouts.h"

#include <algorithm>

#include "model/deepseek/tensors.h"

namespace tidepool::deepseek {
namespace {

LatentScratch take_latents(const ModelGraph& g, WorkspaceCutter& layout, BlockKind kind) {
  const LatentShape s = latent_shape(g);
  const u64 rows = g.batch.rows(), inner = mlp_inner(g.config, kind);
  return {.q = layout.take_values(g.activations, rows * std::max<u64>(s.q_columns(), inner)),
          .kv = layout.take_values(g.activations, rows * s.kv_columns()),
          .latent = layout.take_values(g.activations, rows * s.rank),
          .normed = layout.take_values(g.activations, rows * std::max(g.config.latent.query_rank, s.rank))};
}

}  // namespace

LatentShape latent_shape(const ModelGraph& g) {
  const LatentAttention& l = g.config.latent;
  return {.rows = static_cast<u32>(g.batch.rows()),
          .tokens = g.batch.tokens,
          .heads = g.config.heads,
          .rank = l.rank,
          .plain = l.plain,
          .turned = l.turned,
          .value_size = l.value_size,
          .interleaved = l.interleaved,
          .factor = static_cast<float>(g.config.rope.rotary_factor())};
}

LayerInside::LayerInside(const ModelGraph& g, std::byte* base, BlockKind kind) {
  const LatentShape s = latent_shape(g);
  const u64 rows = g.batch.rows();
  WorkspaceCutter layout(base);
  q_low = layout.take_values(g.activations, rows * g.config.latent.query_rank);
  low = layout.take_values(g.activations, rows * s.low_columns());
  qkv = layout.take_values(g.activations, rows * s.columns());
  attention = layout.take_values(g.activations, rows * s.heads * s.value_size);
  lse = layout.take<float>(attention_shape(g, 0).lse_elements());
  middle = layout.take_values(g.activations, rows * g.config.width);
  gate_up = layout.take_values(g.activations, rows * 2 * mlp_inner(g.config, kind));
  bytes = layout.bytes();
}

ForwardWorkspace::ForwardWorkspace(const ModelGraph& g, std::byte* base, BlockKind kind) {
  WorkspaceCutter layout(base);
  norm = layout.take_values(g.activations, g.batch.rows() * g.config.width);
  latents = take_latents(g, layout, kind);
  adapters = adapter_scratch(g, layout);
  if (kind == BlockKind::attention) {
    router = router_scratch(g, layout, Direction::forward);
    correction = layout.take<float>(g.config.experts.count);
  }
  inside = layout.take<std::byte>(LayerInside(g, nullptr, kind).bytes.value);
  bytes = layout.bytes();
}

BackwardWorkspace::BackwardWorkspace(const ModelGraph& g, std::byte* base, Inside from, BlockKind kind) {
  const LatentShape s = latent_shape(g);
  const u64 rows = g.batch.rows(), h = g.config.width, outs = u64{s.heads} * s.value_size;
  const u64 latent = std::max(g.config.latent.query_rank, s.rank);
  WorkspaceCutter layout(base);
  norm = layout.take_values(g.activations, rows * h);
  narrow = layout.take_values(g.activations, rows * std::max(h, outs));
  latents = take_latents(g, layout, kind);
  dqkv = layout.take_values(g.activations, rows * s.columns());
  dlatent = layout.take_values(g.activations, rows * latent);
  dlow = layout.take_values(g.activations, rows * s.low_columns());
  moments = norm_scratch(g, layout, rms_norm_partials(rows, latent));
  latent_rstd = layout.take<float>(rows);
  adapters = adapter_scratch(g, layout);
  if (kind == BlockKind::attention) router = router_scratch(g, layout, Direction::backward);
  dgate_up = layout.take_values(g.activations, rows * 2 * mlp_inner(g.config, kind));
  const u64 scratch_bytes = attention_scratch(g).value;
  scratch = {layout.take<std::byte>(scratch_bytes), scratch_bytes};
  inside = from == Inside::kept ? nullptr : layout.take<std::byte>(LayerInside(g, nullptr, kind).bytes.value);
  bytes = layout.bytes();
}

}  // namespace tidepool::deepseek
