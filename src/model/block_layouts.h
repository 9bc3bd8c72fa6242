// Layouts of the `kept` and workspace frames of blocks. A layout made from a null base has only its size, for
// planning. A run makes the layout from the frame and checks the size again.
#pragma once

#include <optional>

#include "kernels/kernels.h"
#include "model/adapters.h"
#include "model/norm.h"
#include "model/workspace_cutter.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// Logits are computed for this many tokens of the vocabulary at a time. A constant, so that budgets do not
// change numbers.
inline constexpr u32 vocabulary_slice = 8192;

// Elements from one row of a slice's logits to the next. Rounded up in 16 bits: cuBLASLt's fast kernels read
// whole vectors, and the last slice of a vocabulary may have any length. Rows of fp32 logits are packed.
constexpr u32 logits_stride(Precision activations, u32 columns) {
  constexpr u32 step = 64;
  return activations == Precision::fp32 ? columns : static_cast<u32>(round_up(columns, step));
}

inline AttentionShape attention_shape(const ModelGraph& g, u32 layer) {
  const u32 window = g.config.attention_window(layer);
  const bool latent = g.config.latent.rank != 0;
  return {.sequences = g.batch.sequences,
          .tokens = g.batch.tokens,
          .heads = g.config.heads,
          .head_size = g.config.head_size(),
          .kv_heads = g.config.kv_heads(),
          .scale_size = g.config.attention_scale_given,
          .window = window < g.batch.tokens ? window : 0,
          .value_size = latent ? g.config.latent.value_size : 0,
          .scale_given = latent ? static_cast<float>(g.config.attention_scale()) : 0.0f};
}

// Elements of the gradient inside the MLP: [R, I], or [R, 2I] if the MLP is gated. The gradient is dead when
// attention's backward begins, so attention uses its bytes as scratch.
inline u64 mlp_gradient_elements(const ModelGraph& g) {
  return style(g.config.family).mlp_inputs() * g.batch.rows() * g.config.inner();
}
inline Bytes attention_scratch(const ModelGraph& g) {
  u64 elements = mlp_gradient_elements(g);
  // Attention blocks have no MLP; this much is set aside for their scratch.
  if (g.config.experts.count != 0) elements = std::min(elements, g.batch.rows() * g.config.query_width());
  return Bytes{values_bytes(elements, g.activations)};
}

// RETURNS: why attention must use our own kernels on every device; empty if a library may compute it.
inline std::string_view why_own_attention(const ModelGraph& g) {
  if (g.batch.packed) return "a sequence may hold several documents (data.packing)";
  if (g.config.attention_dropout > 0) return "attention weights drop out";
  if (style(g.config.family).attention_sinks) return "heads have attention sinks";
  if (const AttentionShape s = attention_shape(g, 0); s.value_head_size() != s.head_size)
    return "heads of v and of k differ in size";
  for (u32 layer = 0; layer < g.config.layers; ++layer)
    if (attention_shape(g, layer).window != 0) return "sequences are longer than the model's sliding window";
  return {};
}

// RETURNS: the attention that the model's layers will run, so that a library can prepare for it; nothing if
// our own kernels must compute it.
inline std::optional<AttentionToCome> attention_to_come(const ModelGraph& g) {
  if (!why_own_attention(g).empty()) return {};
  return AttentionToCome{.shape = attention_shape(g, 0),
                         .precision = g.activations,
                         .scratch = attention_scratch(g),
                         .has_backward = trains(g)};
}

inline RotaryShape rotary_shape(const ModelGraph& g) {
  return {.rows = static_cast<u32>(g.batch.rows()),
          .tokens = g.batch.tokens,
          .heads = g.config.heads,
          .kv_heads = g.config.kv_heads(),
          .head_size = g.config.head_size(),
          .turned_size = g.config.rotary_size(),
          .factor = static_cast<float>(g.config.rope.rotary_factor())};
}

enum class Inside : u8 { kept, recomputed };

struct EmbeddingBackwardWorkspace {
  EmbeddingBackwardWorkspace(const ModelGraph&, std::byte* base);
  u64* order;  // [R]
  Bytes bytes;
};

// Tail of a layer's backward workspace: the inside, if it is recomputed, and the gradient inside the MLP. In
// a recomputed inside, the gradient overwrites field `mlp` in place: the values whose gradient it is.
struct InsideAndGradient {
  std::byte* inside = nullptr;  // null: kept
  Values gradient;
};
template <class LayerInside>
InsideAndGradient take_inside(const ModelGraph& g, WorkspaceCutter& layout, Inside from,
                              Values LayerInside::*mlp) {
  if (from == Inside::kept) return {.gradient = layout.take_values(g.activations, mlp_gradient_elements(g))};
  auto* inside = layout.take<std::byte>(LayerInside(g, nullptr).bytes.value);
  return {inside, LayerInside(g, inside).*mlp};
}

enum class Direction : u8 { forward, backward };

struct HeadWorkspace {
  HeadWorkspace(const ModelGraph&, std::byte* base, Direction);
  Values norm;          // [R, H]
  Values logits;        // [R, logits_stride(min(V, vocabulary_slice))]
  RowLoss* losses;      // [R]
  Values dnorm;         // [R, H]; backward only
  NormScratch moments;  // moments of the final norm; backward only
  Bytes bytes;
};

}  // namespace tidepool
