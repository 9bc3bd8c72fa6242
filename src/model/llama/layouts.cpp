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

LayerInside::LayerInside(const ModelGraph& g, std::byte* base) {
  const Shape s(g);
  WorkspaceCutter layout(base);
  qkv = layout.take_values(g.activations, s.rows * s.qkv);
  attention = layout.take_values(g.activations, s.rows * s.queries);
  lse = layout.take<float>(attention_shape(g, 0).lse_elements());
  middle = layout.take_values(g.activations, s.rows * s.h);
  gate_up = layout.take_values(g.activations, mlp_gradient_elements(g));
  if (style(g.config.family).branch_norms) {
    attention_branch = take_branch(g, layout);
    mlp_branch = take_branch(g, layout);
  }
  bytes = layout.bytes();
}

ForwardWorkspace::ForwardWorkspace(const ModelGraph& g, std::byte* base) {
  const Shape s(g);
  WorkspaceCutter layout(base);
  wide = layout.take_values(g.activations, s.rows * std::max(s.qkv, 2 * s.inner));
  narrow = layout.take_values(g.activations, s.rows * std::max(s.h, s.queries));
  inner = layout.take_values(g.activations, s.rows * s.inner);
  adapters = adapter_scratch(g, layout);
  bytes = layout.bytes();
}

BackwardWorkspace::BackwardWorkspace(const ModelGraph& g, std::byte* base, Inside from) {
  const Shape s(g);
  WorkspaceCutter layout(base);
  wide = layout.take_values(g.activations, s.rows * std::max(s.inner, s.qkv));
  norm = layout.take_values(g.activations, s.rows * s.h);
  narrow = layout.take_values(g.activations, s.rows * std::max(s.h, s.queries));
  if (g.config.qk_norm()) turned = layout.take_values(g.activations, s.rows * s.qkv);
  moments = norm_scratch(g, layout, g.config.qk_norm() ? rotary_partials(s.rows, g.config.head_size()) : 0);
  adapters = adapter_scratch(g, layout);
  const InsideAndGradient tail = take_inside(g, layout, from, &LayerInside::gate_up);
  inside = tail.inside;
  dgate_up = tail.gradient;
  bytes = layout.bytes();
}

}  // namespace tidepool::llama
