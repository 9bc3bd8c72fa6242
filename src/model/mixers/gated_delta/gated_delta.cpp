#include "model/mixers/gated_delta/gated_delta.h"

#include "model/mixers/gated_delta/frames.h"
#include "model/mixers/gated_delta/state_past.h"
#include "model/mixers/gated_delta/tensors.h"

namespace tidepool::gated_delta {
namespace {

Product in_product(const Layer& l) { return l.product(Role::qkv, Role::absent, projections(l.config())); }
Product out_product(const Layer& l) { return l.product(Role::out, Role::absent); }

void convolve(const Layer& l, const i32* starts, const DeltaInside& in, Values wide) {
  const ConvolvedRows rows(l);
  l.c.kernels.delta_convolution({.shape = rows.shape,
                                 .projected = rows.projected(in.projected),
                                 .weight = l[Role::convolution],
                                 .starts = rows.starts(starts),
                                 .y = rows.convolved(wide)});
}

float epsilon_of(const Layer& l) { return static_cast<float>(l.config().norm_epsilon); }

void norm_out(const Layer& l, const DeltaInside& in, Values y) {
  l.c.kernels.gated_norm({.shape = tile_shape(l),
                          .x = in.out,
                          .projected = in.projected,
                          .weight = l[Role::norm],
                          .epsilon = epsilon_of(l),
                          .y = y});
}

void advance(const Layer& l, const i32* starts, const DeltaInside& in, const TileBorders& borders,
             Values wide, Values out) {
  convolve(l, starts, in, wide);
  l.c.kernels.gated_delta({.shape = tile_shape(l),
                           .qkv = wide,
                           .projected = in.projected,
                           .a_log = l[Role::a_log],
                           .dt_bias = l[Role::dt_bias],
                           .starts = starts,
                           .out = out,
                           .state_before = borders.before.state,
                           .state_after = borders.after.state});
}

void add_to_past(const Layer& l, const MixerForward& m) {
  const DeltaInside in = inside_of(l, m.inside);
  const TileBorders borders = TileBorders::of_values(l, m.past);
  product(l, in_product(l), m.norm, in.projected);
  pass_rows(l, in, borders);
  advance(l, m.starts, in, borders, wide_of(l, m), in.out);
}

// The rows before the tile are in a kept inside, which is not written.
void restore_past(const LayerGradients& s) {
  const Layer& l = s.layer;
  WorkspaceCutter layout(s.b.workspace);
  const DeltaInside in = inside_of(l, s.inside.mixer);
  const BackwardFrame w(l.c.graph, l.number(), layout);
  const TileBorders borders = TileBorders::of_values(l, s.past);
  leave_rows(l, in, borders);
  advance(l, s.b.batch.starts, in, borders, w.qkv, w.narrow);
}

void forward(const Layer& l, const MixerForward& m) {
  add_to_past(l, m);
  const DeltaInside in = inside_of(l, m.inside);
  const Values wide = wide_of(l, m);
  norm_out(l, in, wide);
  add_product(l, out_product(l), wide, m.sum);
}

// narrow: gradient of the normed output; becomes that of the output before its norm.
void norm_backward(const LayerGradients& s, const DeltaInside& in, const BackwardFrame& w) {
  s.layer.c.kernels.gated_norm_backward({.shape = tile_shape(s.layer),
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
  const TileBorders gradients = TileBorders::of_gradients(s.layer, s.past_grad);
  s.layer.c.kernels.gated_delta_backward(
      {.shape = tile_shape(s.layer),
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
       .states = w.states,
       .state_before = TileBorders::of_values(s.layer, s.past).before.state,
       .dstate_after = gradients.after.state,
       .dstate_before = gradients.before.state});
}

void convolution_backward(const LayerGradients& s, const DeltaInside& in, const BackwardFrame& w) {
  const ConvolvedRows rows(s.layer);
  s.layer.c.kernels.delta_convolution_backward({.shape = rows.shape,
                                                .projected = rows.projected(in.projected),
                                                .weight = s.layer[Role::convolution],
                                                .starts = rows.starts(s.b.batch.starts),
                                                .dy = rows.convolved(w.dqkv),
                                                .dprojected = rows.projected(w.wide),
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
  clear_rows_before(l, w);
  norm_backward(s, in, w);
  convolve(l, s.b.batch.starts, in, w.qkv);
  rule_backward(s, in, w);
  convolution_backward(s, in, w);
  pass_row_gradients(s, TileBorders::of_gradients(l, s.past_grad), w.wide);
  recompute_input_norm(s);
  gradients(s, in_product(l), w.norm, w.wide, w.narrow);
}

}  // namespace

const Mixer row = {.tensors = add_tensors,
                   .attention = no_attention,
                   .inside_always = true,
                   .past_bytes = past_bytes,
                   .inside_bytes = inside_bytes,
                   .forward_frame = take_forward,
                   .backward_frame = take_backward,
                   .add_to_past = add_to_past,
                   .restore_past = restore_past,
                   .forward = forward,
                   .restore = restore,
                   .backward = backward};

}  // namespace tidepool::gated_delta
