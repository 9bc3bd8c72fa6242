#include "model/mlps/experts/experts_mlp.h"

#include "model/mlps/experts/router_call.h"
#include "model/mlps/glu/glu.h"
#include "model/mlps/plain/plain.h"

namespace tidepool::experts {
namespace {

enum class Role : u8 {
  router = router_roles,
  router_bias,
  correction,  // added to scores when experts are chosen; not trained
  shared_gate,
  absent,  // the bias of a product without one
};

// The MLP that every token uses.
const Mlp& shared_row(const ModelConfig& c) {
  return traits(c.family).experts->tensors.has_gate() ? glu::row : plain::row;
}

void add_tensors(const ModelConfig& c, u32, LayerTensors& out) {
  const ExpertTensors& names = traits(c.family).experts->tensors;
  const u32 experts = c.experts.count;
  out.add(Role::router, {.path = names.router, .rows = experts, .columns = c.width, .router = true});
  if (!names.router_bias.empty())
    out.add(Role::router_bias, {.path = names.router_bias, .rows = experts, .router = true});
  if (!names.correction_bias.empty())
    out.add(Role::correction, {.path = names.correction_bias, .rows = experts, .router = true});
  if (c.shared_inner() == 0) return;
  (names.has_gate() ? glu::add_tensors : plain::add_tensors)(c, names.shared, c.shared_inner(), false, out);
  if (!names.shared_gate.empty()) out.add_matrix(Role::shared_gate, names.shared_gate, 1, c.width);
}

bool has_shared(const Layer& l) { return l.config().shared_inner() != 0; }

Product shared_gate_product(const Layer& l) { return l.product(Role::shared_gate, Role::absent); }

MlpWidths widths(const ModelConfig& c, u32) {
  if (c.shared_inner() == 0) return {};
  const bool gate = traits(c.family).experts->tensors.has_gate();
  MlpWidths out = gate ? glu::widths_of(c.shared_inner()) : plain::widths_of(c.shared_inner());
  if (c.shared_gate()) out.spare = out.inner;
  return out;
}

RouterWeights router_of(const Layer& l, const float* correction = nullptr) {
  return {.weight = l[Role::router],
          .bias = l[Role::router_bias],
          .correction = correction,
          .adapters = l.adapters,
          .module = l.product(Role::router, Role::router_bias).modules};
}

// RETURNS: the correction in fp32, as the router reads it; null if the family has none.
const float* correction_of(const Layer& l, const RouterScratch& scratch) {
  const Param correction = l[Role::correction];
  if (!correction) return nullptr;
  const u32 experts = l.config().experts.count;
  l.c.kernels.copy_columns({.rows = 1,
                            .columns = experts,
                            .x = correction,
                            .x_stride = experts,
                            .y = scratch.correction,
                            .y_stride = experts});
  return scratch.correction;
}

void forward(const Layer& l, const MlpForward& m) {
  route(l.c, router_of(l, correction_of(l, m.router)), *m.f, m.router);
  if (l.config().shared_gate()) {
    product(l, shared_gate_product(l), m.norm, m.router.shared_gate);
    return glu::forward(l, m, {m.router.shared_gate});
  }
  if (has_shared(l)) return shared_row(l.config()).forward(l, m);
  if (m.sum.y.data != m.sum.residual.data)  // a copy
    l.c.kernels.dropout({}, m.sum.residual, m.sum.y, u64{rows_of(l.c)} * l.config().width);
}

void recompute(const Layer& l, ConstValues norm, Values values) {
  if (has_shared(l)) shared_row(l.config()).recompute(l, norm, values);
}

void shared_backward(const LayerGradients& s, const MlpBackward& m) {
  const Product gate = shared_gate_product(s.layer);
  const RouterScratch& scratch = s.frame.router;
  product(s.layer, gate, s.frame.buffers.norm, scratch.shared_gate);
  glu::backward(s, m, {scratch.shared_gate, scratch.dshared_gate});
  gradients(s, gate, s.frame.buffers.norm, scratch.dshared_gate, m.dnorm, m.add);
}

void backward(const LayerGradients& s, const MlpBackward& m) {
  const Layer& l = s.layer;
  if (l.config().shared_gate())
    shared_backward(s, m);
  else if (has_shared(l))
    shared_row(l.config()).backward(s, m);
  route_backward(l.c, router_of(l),
                 {.weight = s[Role::router], .bias = s[Role::router_bias], .adapters = s.adapters},
                 s.frame.buffers.norm, s.b, s.frame.router);
  float* correction = s[Role::correction];
  if (correction != nullptr && !s.b.accumulate) l.c.kernels.zero(correction, l.config().experts.count);
}

}  // namespace

const Mlp row = {.tensors = add_tensors,
                 .widths = widths,
                 .forward = forward,
                 .recompute = recompute,
                 .backward = backward};

}  // namespace tidepool::experts
