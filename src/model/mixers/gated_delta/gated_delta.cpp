#include "model/mixers/gated_delta/gated_delta.h"

#include "model/mixers/gated_delta/frames.h"
#include "model/mixers/gated_delta/tensors.h"

namespace tidepool::gated_delta {
namespace {

Product in_product(const Layer& l) { return l.product(Role::qkv, Role::absent, projections(l.config())); }
Product out_product(const Layer& l) { return l.product(Role::out, Role::absent); }

void convolve(const Layer& l, const i32* starts, ConstValues projected, Values qkv) {
  l.c.kernels.delta_convolution({.shape = delta_shape(l.c.graph),
                                 .projected = projected,
                                 .weight = l[Role::convolution],
                                 .starts = starts,
                                 .y = qkv});
}

float epsilon_of(const Layer& l) { return static_cast<float>(l.config().norm_epsilon); }

void norm_out(const Layer& l, const DeltaInside& in, Values y) {
  l.c.kernels.gated_norm({.shape = delta_shape(l.c.graph),
                          .x = in.out,
                          .projected = in.projected,
                          .weight = l[Role::norm],
                          .epsilon = epsilon_of(l),
                          .y = y});
}

void forward(const Layer& l, const MixerForward& m) {
  const DeltaInside in = inside_of(l, m.inside);
  const Values wide = wide_of(l, m);
  product(l, in_product(l), m.norm, in.projected);
  convolve(l, m.starts, in.projected, wide);
  l.c.kernels.gated_delta({.shape = delta_shape(l.c.graph),
                           .qkv = wide,
                           .projected = in.projected,
                           .a_log = l[Role::a_log],
                           .dt_bias = l[Role::dt_bias],
                           .starts = m.starts,
                           .out = in.out});
  norm_out(l, in, wide);
  add_product(l, out_product(l), wide, m.sum);
}

// narrow: gradient of the normed output; becomes that of the output before its norm.
void norm_backward(const LayerGradients& s, const DeltaInside& in, const BackwardFrame& w) {
  s.layer.c.kernels.gated_norm_backward({.shape = delta_shape(s.layer.c.graph),
                                         .x = in.out,
                                         .projected = in.projected,
                                         .weight = s.layer[Role::norm],
                                         .epsilon = epsilon_of(s.layer),
                                         .dy = w.narrow,
                                         .dx = w.narrow,
                                         .dprojected = w.wide,
                                         .dweight = s[Role::norm],
                                         .accumulate = s.b.accumulate,
                                         .partials = w.moments.partials});
}

void rule_backward(const LayerGradients& s, const DeltaInside& in, const BackwardFrame& w) {
  s.layer.c.kernels.gated_delta_backward({.shape = delta_shape(s.layer.c.graph),
                                          .qkv = w.qkv,
                                          .projected = in.projected,
                                          .a_log = s.layer[Role::a_log],
                                          .dt_bias = s.layer[Role::dt_bias],
                                          .starts = s.b.batch.starts,
                                          .dout = w.narrow,
                                          .dqkv = w.dqkv,
                                          .dprojected = w.wide,
                                          .da_log = s[Role::a_log],
                                          .ddt_bias = s[Role::dt_bias],
                                          .accumulate = s.b.accumulate,
                                          .partials = w.moments.partials,
                                          .states = w.states});
}

void convolution_backward(const LayerGradients& s, const DeltaInside& in, const BackwardFrame& w) {
  s.layer.c.kernels.delta_convolution_backward({.shape = delta_shape(s.layer.c.graph),
                                                .projected = in.projected,
                                                .weight = s.layer[Role::convolution],
                                                .starts = s.b.batch.starts,
                                                .dy = w.dqkv,
                                                .dprojected = w.wide,
                                                .dweight = s[Role::convolution],
                                                .accumulate = s.b.accumulate,
                                                .partials = w.moments.partials});
}

void backward(const LayerGradients& s, ConstValues dout) {
  const Layer& l = s.layer;
  WorkspaceCutter layout(s.b.workspace);
  const DeltaInside in = inside_of(l, s.inside.mixer);
  const BackwardFrame w(l.c.graph, l.number(), layout);
  norm_out(l, in, w.qkv);
  gradients(s, out_product(l), w.qkv, dout, w.narrow);
  norm_backward(s, in, w);
  convolve(l, s.b.batch.starts, in.projected, w.qkv);
  rule_backward(s, in, w);
  convolution_backward(s, in, w);
  recompute_input_norm(s);
  gradients(s, in_product(l), w.norm, w.wide, w.narrow);
}

}  // namespace

const Mixer row = {.tensors = add_tensors,
                   .attention = no_attention,
                   .inside_always = true,
                   .past_columns = nullptr,
                   .inside_bytes = inside_bytes,
                   .forward_frame = take_forward,
                   .backward_frame = take_backward,
                   .forward = forward,
                   .restore = restore,
                   .backward = backward};

}  // namespace tidepool::gated_delta
