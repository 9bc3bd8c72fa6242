#include "model/llama/layouts.h"

#include <algorithm>

namespace tidepool::llama {
namespace {

struct Shape {
  explicit Shape(const ModelGraph& g)
      : rows(g.batch.rows()),
        h(g.config.width),
        queries(g.config.query_width()),
        qkv(g.config.qkv_width()),
        inner(g.config.inner()) {}
  u64 rows, h, queries, qkv, inner;
};

Branch take_branch(const ModelGraph& g, WorkspaceCutter& layout) {
  const u64 rows = g.batch.rows();
  return {.value = layout.take_values(g.activations, rows * g.config.width),
          .rstd = layout.take<float>(rows)};
}

}  // namespace

LayerInside::LayerInside(const ModelGraph& g, std::byte* base, BlockKind kind) {
  const Shape s(g);
  WorkspaceCutter layout(base);
  qkv = layout.take_values(g.activations, s.rows * s.qkv);
  attention = layout.take_values(g.activations, s.rows * s.queries);
  lse = layout.take<float>(attention_shape(g, 0).lse_elements());
  middle = layout.take_values(g.activations, s.rows * s.h);
  if (kind == BlockKind::layer) gate_up = layout.take_values(g.activations, mlp_gradient_elements(g));
  if (style(g.config.family).branch_norms) {
    attention_branch = take_branch(g, layout);
    mlp_branch = take_branch(g, layout);
  }
  bytes = layout.bytes();
}

ForwardWorkspace::ForwardWorkspace(const ModelGraph& g, std::byte* base, BlockKind kind) {
  const bool mlp = kind == BlockKind::layer;
  const Shape s(g);
  WorkspaceCutter layout(base);
  wide = layout.take_values(g.activations, s.rows * std::max(s.qkv, mlp ? 2 * s.inner : 0));
  narrow = layout.take_values(g.activations, s.rows * std::max(s.h, s.queries));
  if (mlp) inner = layout.take_values(g.activations, s.rows * s.inner);
  adapters = adapter_scratch(g, layout);
  if (!mlp) router = router_scratch(g, layout, Direction::forward);
  bytes = layout.bytes();
}

BackwardWorkspace::BackwardWorkspace(const ModelGraph& g, std::byte* base, Inside from, BlockKind kind) {
  const bool mlp = kind == BlockKind::layer;
  const Shape s(g);
  WorkspaceCutter layout(base);
  wide = layout.take_values(g.activations, s.rows * std::max(mlp ? s.inner : 0, s.qkv));
  norm = layout.take_values(g.activations, s.rows * s.h);
  narrow = layout.take_values(g.activations, s.rows * std::max(s.h, s.queries));
  if (g.config.qk_norm()) turned = layout.take_values(g.activations, s.rows * s.qkv);
  moments = norm_scratch(g, layout, g.config.qk_norm() ? rotary_partials(s.rows, g.config.head_size()) : 0);
  adapters = adapter_scratch(g, layout);
  if (mlp) {
    const InsideAndGradient tail = take_inside(g, layout, from, &LayerInside::gate_up);
    inside = tail.inside;
    dgate_up = tail.gradient;
  } else {
    router = router_scratch(g, layout, Direction::backward);
    inside = from == Inside::kept ? nullptr : layout.take<std::byte>(AttentionInside(g, nullptr).bytes.value);
    dgate_up = {layout.take<std::byte>(attention_scratch(g).value), g.activations};
  }
  bytes = layout.bytes();
}

}  // namespace tidepool::llama
