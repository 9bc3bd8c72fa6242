// Final norm, the head's matrix and cross-entropy, over fixed slices of the vocabulary. With one slice its
// logits are made once; with more, backward makes them again for the gradients.
#include <algorithm>

#include "base/check.h"
#include "model/block_calls.h"

namespace tidepool {
namespace {

enum Windows : u32 { norm, matrix };  // the matrix may be the embedding's
constexpr u32 only_tensor = 0;

struct FinalNorm {
  u32 rows;
  ConstValues x;
  Values y;
  float* mean = nullptr;
  float* rstd = nullptr;
};
void final_norm(const BlockContext& c, const WindowParams& w, const FinalNorm& n) {
  const u32 columns = c.graph.config.width;
  const float epsilon = static_cast<float>(c.graph.config.norm_epsilon);
  if (style(c.graph.config.family) == LayerStyle::gpt2)
    c.kernels.layer_norm({.rows = n.rows,
                          .columns = columns,
                          .x = n.x,
                          .weight = w[NormTensor::weight],
                          .bias = w[NormTensor::bias],
                          .epsilon = epsilon,
                          .y = n.y,
                          .mean = n.mean,
                          .rstd = n.rstd});
  else
    c.kernels.rms_norm({.rows = n.rows,
                        .columns = columns,
                        .x = n.x,
                        .weight = w[NormTensor::weight],
                        .epsilon = epsilon,
                        .y = n.y,
                        .rstd = n.rstd});
}

struct Head {
  const BlockContext& c;
  const WindowParams matrix;
  const HeadWorkspace& workspace;
  const i32* targets;

  u32 vocabulary() const { return c.graph.config.vocab_size; }
  bool one_slice() const { return vocabulary() <= vocabulary_slice; }
  u32 slice() const { return c.slice_columns != 0 ? c.slice_columns : vocabulary_slice; }
  Param slice_weight(u32 begin) const { return matrix[only_tensor].at(u64{begin} * c.graph.config.width); }
};

template <class Fn>
void for_slices(const Head& s, Fn fn) {
  for (u32 begin = 0; begin < s.vocabulary(); begin += s.slice()) {
    const u32 columns = std::min(s.slice(), s.vocabulary() - begin);
    fn(LogitsSlice{.rows = rows_of(s.c),
                   .begin = begin,
                   .columns = columns,
                   .logits = s.workspace.logits,
                   .stride = logits_stride(s.c.graph.activations, columns),
                   .targets = s.targets,
                   .losses = s.workspace.losses});
  }
}

void make_logits(const Head& s, const LogitsSlice& slice) {
  s.c.kernels.matmul({.m = slice.rows,
                      .n = slice.columns,
                      .k = s.c.graph.config.width,
                      .x = s.workspace.norm,
                      .weight = s.slice_weight(slice.begin),
                      .transposed = true,
                      .y = slice.logits,
                      .y_stride = slice.stride});
}

void loss_pass(const Head& s, double* loss_sum) {
  for_slices(s, [&](const LogitsSlice& slice) {
    make_logits(s, slice);
    s.c.kernels.cross_entropy_slice(slice);
  });
  s.c.kernels.cross_entropy_loss(s.workspace.losses, s.targets, rows_of(s.c), loss_sum);
}

void gradient_pass(const Head& s, const BlockBackward& b) {
  const u32 h = s.c.graph.config.width;
  float* dmatrix = gradients_of(s.c, b, matrix)[only_tensor];
  for_slices(s, [&](const LogitsSlice& slice) {
    if (!s.one_slice()) make_logits(s, slice);
    s.c.kernels.cross_entropy_gradient(slice, static_cast<float>(b.inverse_tokens), b.loss_scale);
    s.c.kernels.matmul({.m = slice.rows,
                        .n = h,
                        .k = slice.columns,
                        .x = slice.logits,
                        .x_stride = slice.stride,
                        .weight = s.slice_weight(slice.begin),
                        .accumulate = slice.begin > 0,
                        .y = s.workspace.dnorm});
    if (dmatrix == nullptr) return;
    s.c.kernels.weight_gradient({.m = slice.rows,
                                 .n = h,
                                 .k = slice.columns,
                                 .x = slice.logits,
                                 .x_stride = slice.stride,
                                 .dy = s.workspace.norm,
                                 .dw = dmatrix + u64{slice.begin} * h,
                                 .accumulate = b.accumulate});
  });
}

void layer_norm_backward(const BlockContext& c, const BlockBackward& b, const HeadWorkspace& workspace) {
  const WindowGradients g = gradients_of(c, b, norm);
  c.kernels.layer_norm_backward({.rows = rows_of(c),
                                 .columns = c.graph.config.width,
                                 .x = b.input,
                                 .weight = params_of(c, b.windows, norm)[NormTensor::weight],
                                 .mean = workspace.mean,
                                 .rstd = workspace.rstd,
                                 .dy = workspace.dnorm,
                                 .dx = b.grad,
                                 .dweight = g[NormTensor::weight],
                                 .dbias = g[NormTensor::bias],
                                 .accumulate = b.accumulate,
                                 .partials = workspace.partials});
}

void rms_norm_backward(const BlockContext& c, const BlockBackward& b, const HeadWorkspace& workspace) {
  c.kernels.rms_norm_backward({.rows = rows_of(c),
                               .columns = c.graph.config.width,
                               .x = b.input,
                               .weight = params_of(c, b.windows, norm)[NormTensor::weight],
                               .rstd = workspace.rstd,
                               .dy = workspace.dnorm,
                               .dx = b.grad,
                               .dweight = gradients_of(c, b, norm)[NormTensor::weight],
                               .accumulate = b.accumulate,
                               .partials = workspace.partials});
}

void norm_backward(const BlockContext& c, const BlockBackward& b, const HeadWorkspace& workspace) {
  if (style(c.graph.config.family) == LayerStyle::gpt2)
    layer_norm_backward(c, b, workspace);
  else
    rms_norm_backward(c, b, workspace);
}

// The whole vocabulary of one row, for sampling.
void logits_of_row(const BlockContext& c, const BlockForward& f, const HeadWorkspace& workspace) {
  CHECK(f.logits_row < rows_of(c), f.logits_row);
  const u32 h = c.graph.config.width;
  final_norm(c, params_of(c, f.windows, norm),
             {.rows = 1, .x = f.input.at(u64{f.logits_row} * h), .y = workspace.norm});
  c.kernels.matmul({.m = 1,
                    .n = c.graph.config.vocab_size,
                    .k = h,
                    .x = workspace.norm,
                    .weight = params_of(c, f.windows, matrix)[only_tensor],
                    .transposed = true,
                    .y = f.logits});
}

}  // namespace

void head_forward(const BlockContext& c, const BlockForward& f) {
  const HeadWorkspace workspace(c.graph, f.workspace, Direction::forward);
  CHECK(workspace.bytes == block_of(c).forward_workspace, workspace.bytes.value);
  if (f.loss_sum != nullptr) {
    final_norm(c, params_of(c, f.windows, norm), {.rows = rows_of(c), .x = f.input, .y = workspace.norm});
    loss_pass({c, params_of(c, f.windows, matrix), workspace, f.targets}, f.loss_sum);
  }
  if (f.logits != nullptr) logits_of_row(c, f, workspace);
}

void head_backward(const BlockContext& c, const BlockBackward& b) {
  const HeadWorkspace workspace(c.graph, b.workspace, Direction::backward);
  CHECK(workspace.bytes == block_of(c).backward_workspace, workspace.bytes.value);
  final_norm(c, params_of(c, b.windows, norm),
             {.rows = rows_of(c),
              .x = b.input,
              .y = workspace.norm,
              .mean = workspace.mean,
              .rstd = workspace.rstd});
  const Head head = {c, params_of(c, b.windows, matrix), workspace, b.targets};
  loss_pass(head, b.loss_sum);
  gradient_pass(head, b);
  norm_backward(c, b, workspace);
}

}  // namespace tidepool
