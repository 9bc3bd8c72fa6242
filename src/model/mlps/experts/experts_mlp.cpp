#include "model/mlps/experts/experts_mlp.h"

#include "model/mlps/experts/router_call.h"
#include "model/mlps/glu/glu.h"

namespace tidepool::experts {
namespace {

enum class Role : u8 {
  router = router_roles,
  router_bias,
  correction,  // added to scores when experts are chosen; not trained
};

void add_tensors(const ModelConfig& c, LayerTensors& out) {
  const ExpertTensors& names = traits(c.family).experts->tensors;
  const u32 experts = c.experts.count;
  out.add(Role::router, {.path = names.router, .rows = experts, .columns = c.width, .router = true});
  if (!names.router_bias.empty())
    out.add(Role::router_bias, {.path = names.router_bias, .rows = experts, .router = true});
  if (!names.correction_bias.empty())
    out.add(Role::correction, {.path = names.correction_bias, .rows = experts, .router = true});
  if (c.shared_inner() != 0) glu::add_tensors(c, names.shared, c.shared_inner(), false, out);
}

bool has_shared(const Layer& l) { return l.config().shared_inner() != 0; }

MlpWidths widths(const ModelConfig& c) {
  return c.shared_inner() != 0 ? glu::widths_of(c.shared_inner()) : MlpWidths{};
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
  if (has_shared(l)) return glu::row.forward(l, m);
  if (m.sum.y.data != m.sum.residual.data)  // a copy
    l.c.kernels.dropout({}, m.sum.residual, m.sum.y, u64{rows_of(l.c)} * l.config().width);
}

void recompute(const Layer& l, ConstValues norm, Values values) {
  if (has_shared(l)) glu::row.recompute(l, norm, values);
}

void backward(const LayerGradients& s, const MlpBackward& m) {
  const Layer& l = s.layer;
  if (has_shared(l)) glu::row.backward(s, m);
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
