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
  factors,     // on the weights of an expert's tokens
  shared_gate,
  absent,  // the bias of a product without one
};

// The MLP that every token uses.
const Mlp& shared_row(const ModelConfig& c) {
  return traits(c.family).experts->tensors.has_gate() ? glu::row : plain::row;
}

// Norms of experts that are a branch beside a dense MLP, whose own is the layer's.
void add_norms(const ModelConfig& c, LayerTensors& out) {
  const BranchNormNames& norms = traits(c.family).experts->tensors.norms;
  out.add(NormRole::router, {.path = norms.router, .rows = c.width, .router = true, .init = Init::ones});
  out.add_norm(NormRole::experts, norms.experts, c.width);
}

void add_tensors(const ModelConfig& c, u32 layer, LayerTensors& out) {
  const ExpertTensors& names = traits(c.family).experts->tensors;
  const u32 experts = c.experts.count;
  out.add(Role::router, {.path = names.router, .rows = experts, .columns = c.width, .router = true});
  if (!names.router_bias.empty())
    out.add(Role::router_bias, {.path = names.router_bias, .rows = experts, .router = true});
  if (!names.correction_bias.empty())
    out.add(Role::correction, {.path = names.correction_bias, .rows = experts, .router = true});
  if (!names.factors.empty())
    out.add(Role::factors, {.path = names.factors, .rows = experts, .router = true, .init = Init::ones});
  if (names.are_branch()) add_norms(c, out);
  const u32 shared = c.shared_inner(layer);
  if (shared == 0) return;
  (names.has_gate() ? glu::add_tensors : plain::add_tensors)(c, names.shared, shared, false, out);
  if (!names.shared_gate.empty()) out.add_matrix(Role::shared_gate, names.shared_gate, 1, c.width);
}

bool has_shared(const Layer& l) { return l.config().shared_inner(l.number()) != 0; }
bool are_branch(const Layer& l) { return l.config().has_branches(l.number()); }

Product shared_gate_product(const Layer& l) { return l.product(Role::shared_gate, Role::absent); }

MlpWidths widths(const ModelConfig& c, u32 layer) {
  const u32 shared = c.shared_inner(layer);
  if (shared == 0) return {};
  const bool gate = traits(c.family).experts->tensors.has_gate();
  MlpWidths out = gate ? glu::widths_of(shared) : plain::widths_of(shared);
  if (c.shared_gate()) out.spare = out.inner;
  return out;
}

// RETURNS: a vector of the router in fp32, as its kernels read it, written to `to`; null if there is none.
const float* in_fp32(const Layer& l, Param vector, float* to) {
  if (!vector) return nullptr;
  const u32 experts = l.config().experts.count;
  l.c.kernels.copy_columns(
      {.rows = 1, .columns = experts, .x = vector, .x_stride = experts, .y = to, .y_stride = experts});
  return to;
}

RouterWeights router_of(const Layer& l, const RouterScratch& scratch) {
  return {.weight = l[Role::router],
          .bias = l[Role::router_bias],
          .factors = in_fp32(l, l[Role::factors], scratch.factors),
          .adapters = l.adapters,
          .module = l.product(Role::router, Role::router_bias).modules};
}

void route_tokens(const Layer& l, const MlpForward& m) {
  ConstValues x = m.f->experts.normed;
  if (are_branch(l)) {
    norm_of(l, NormRole::experts, m.x, m.f->experts.normed);
    norm_of(l, NormRole::router, m.x, m.router.normed);
    x = m.router.normed;
  }
  RouterWeights router = router_of(l, m.router);
  router.correction = in_fp32(l, l[Role::correction], m.router.correction);
  route(l.c, router, x, *m.f, m.router);
}

void forward(const Layer& l, const MlpForward& m) {
  if (m.f != nullptr) route_tokens(l, m);
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

// Gradients of the router, and through its input and that of the experts. A branch's router and experts have
// norms of their own of the residual stream, with the moments of the MLP's.
void route_gradients(const LayerGradients& s) {
  const Layer& l = s.layer;
  const RouterScratch& scratch = s.frame.router;
  const RouterGradients d = {.weight = s[Role::router],
                             .bias = s[Role::router_bias],
                             .factors = s[Role::factors],
                             .adapters = s.adapters};
  RouteBackward r = {.x = s.frame.buffers.norm, .dx = s.b.experts.normed_grad, .add = true};
  if (!are_branch(l)) return route_backward(l.c, router_of(l, scratch), d, r, s.b, scratch);
  const ConstValues stream = s.before_mlp();
  norm_of(l, NormRole::router, stream, scratch.normed);
  norm_gradient(s, NormRole::experts, stream, ConstValues(s.b.experts.normed_grad));
  r.x = scratch.normed, r.add = false;  // in the place of that gradient, which has gone through its norm
  route_backward(l.c, router_of(l, scratch), d, r, s.b, scratch);
  norm_gradient(s, NormRole::router, stream, r.dx);
}

void backward(const LayerGradients& s, const MlpBackward& m) {
  const Layer& l = s.layer;
  if (l.config().shared_gate())
    shared_backward(s, m);
  else if (has_shared(l))
    shared_row(l.config()).backward(s, m);
  route_gradients(s);
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
