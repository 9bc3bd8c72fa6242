// The head: final norm, matrix and loss, over fixed slices of the matrix's rows: the vocabulary, or labels.
// If they are one slice, backward computes the logits once, for loss and gradients. With several slices it
// computes them once for the statistics of every row, from which the losses follow, and again for the
// gradients.
#include <algorithm>

#include "base/check.h"
#include "model/block_calls.h"
#include "model/mlps/experts/router_call.h"
#include "model/norm.h"
#include "model/row_tiles.h"

namespace tidepool {
namespace {

enum HeadWindows : u32 { final_norm, matrix };  // the matrix may be the embedding's
enum MatrixTensor : u32 { weights, bias };      // bias: of heads that classify tokens

// `w`: WindowParams or WindowGradients.
template <class W>
bool has_bias(const W& w) {
  return w.window.tensors.size() > static_cast<u32>(NormTensor::bias);
}

NormWeights weights_of_norm(const BlockContext& c, std::span<const std::byte* const> windows) {
  const WindowParams w = params_of(c, windows, final_norm);
  return {.weight = w[NormTensor::weight], .bias = has_bias(w) ? w[NormTensor::bias] : Param{}};
}

struct Head {
  const BlockContext& c;
  const WindowParams matrix;
  const HeadWorkspace& workspace;
  const BatchView& batch;

  const ObjectiveRule& rule() const { return c.graph.objective; }
  // A temperature divides logits behind their cap, which is the same as dividing both.
  double temperature() const { return rule().divergence.temperature; }
  float factor() const { return static_cast<float>(c.graph.config.logits_factor() / temperature()); }
  float cap() const { return static_cast<float>(c.graph.config.logits_cap() / temperature()); }
  // Columns of logits: in a teacher's pass those of tokens that the model has too.
  u32 columns() const {
    const u32 all = c.graph.config.head_rows(), given = rule().divergence.columns;
    return given != 0 ? std::min(given, all) : all;
  }
  bool one_slice() const { return columns() <= vocabulary_slice; }
  u32 slice() const { return c.slice_columns != 0 ? c.slice_columns : vocabulary_slice; }
  Param slice_weight(u32 begin) const { return matrix[weights].at(u64{begin} * c.graph.config.width); }
  Param slice_bias(u32 begin) const {
    return c.graph.config.score.of_tokens ? matrix[bias].at(begin) : Param{};
  }
  bool smooths() const { return c.training && smooths_targets(rule()); }
  Smoothing smoothing() const {
    if (!smooths()) return {};
    return {static_cast<float>(rule().label_smoothing), columns(), workspace.logit_sums};
  }
  TeacherTokens teacher() const {
    return {.rule = rule().divergence,
            .rows = rows_of(c),
            .targets = batch.targets,
            .distributions = batch.distributions,
            .logits = workspace.of_teacher};
  }
};

template <class Fn>
void for_slices(const Head& s, Fn fn) {
  for (u32 begin = 0; begin < s.columns(); begin += s.slice()) {
    const u32 columns = std::min(s.slice(), s.columns() - begin);
    fn(LogitsSlice{.rows = rows_of(s.c),
                   .begin = begin,
                   .columns = columns,
                   .logits = s.workspace.logits,
                   .stride = logits_stride(s.c.graph.activations, columns),
                   .targets = s.batch.targets,
                   .losses = s.workspace.losses,
                   .cap = s.cap(),
                   .logit_sums = s.workspace.logit_sums});
  }
}

void make_logits(const Head& s, const LogitsSlice& slice) {
  s.c.kernels.matmul({.m = slice.rows,
                      .n = slice.columns,
                      .k = s.c.graph.config.width,
                      .x = s.workspace.norm,
                      .weight = s.slice_weight(slice.begin),
                      .transposed = true,
                      .bias = s.slice_bias(slice.begin),
                      .scale = s.factor(),
                      .y = slice.logits,
                      .y_stride = slice.stride});
}

// Makes the statistics of rows, and adds the micro-batch's sums. `weight`: of a unit, or a target.
void loss_pass(const Head& s, Sums* sums, double weight) {
  const ObjectiveRule& rule = s.rule();
  for_slices(s, [&](const LogitsSlice& slice) {
    make_logits(s, slice);
    s.c.kernels.cross_entropy_slice(slice);
    if (rule.reads_distributions()) s.c.kernels.take_teacher_tokens(slice, s.teacher());
    if (s.workspace.top != nullptr) s.c.kernels.select_top(slice, s.workspace.top, rule.divergence.top_k);
  });
  const u32 rows = rows_of(s.c);
  LossSums of_targets = {.smoothing = s.smoothing()};
  if (!rule.units() && !rule.divergence.on()) of_targets.loss = &(*sums)[Sum::loss];
  if (!rule.units() && !s.c.training) of_targets.correct = &(*sums)[Sum::correct];
  s.c.kernels.cross_entropy_loss(s.workspace.losses, s.batch.targets, rows, of_targets);
  if (rule.reads_distributions())
    s.c.kernels.divergence_losses({.tokens = s.teacher(),
                                   .columns = s.columns(),
                                   .cap = s.cap(),
                                   .losses = s.workspace.losses,
                                   .weight = weight,
                                   .of_rows = s.workspace.of_rows,
                                   .factors = s.workspace.factors,
                                   .sum = &(*sums)[Sum::loss]});
  if (!rule.units()) return;
  s.c.kernels.unit_losses({.rule = rule,
                           .rows = rows,
                           .targets = s.batch.targets,
                           .sequences = s.batch.sequences,
                           .values = s.batch.values,
                           .references = s.batch.references,
                           .old_logps = s.batch.old_logps,
                           .losses = s.workspace.losses,
                           .logit_sums = s.workspace.logit_sums,
                           .columns = s.columns(),
                           .weight = weight,
                           .of_sequences = s.workspace.of_sequences,
                           .of_units = s.workspace.of_units,
                           .factors = s.workspace.factors,
                           .sums = sums});
}

void gradient_pass(const Head& s, const BlockBackward& b) {
  const u32 h = s.c.graph.config.width;
  const WindowGradients of_matrix = gradients_of(s.c, b, matrix);
  float* const dmatrix = of_matrix[weights];
  const bool biased = bool(s.slice_bias(0));
  for_slices(s, [&](const LogitsSlice& slice) {
    if (!s.one_slice()) make_logits(s, slice);
    // The gradient is that of the product, before the factor. A cap comes after the factor.
    const double weight = s.workspace.factors != nullptr ? 1 : b.objective.inverse_targets;
    const LossFactors factors = {.scale = static_cast<float>(weight) * s.factor(),
                                 .rows = s.workspace.factors,
                                 .loss_scale = b.objective.loss_scale,
                                 .smoothing = s.smoothing()};
    s.c.kernels.cross_entropy_gradient(slice, factors);
    if (s.rule().reads_distributions()) s.c.kernels.add_teacher_gradients(slice, s.teacher(), factors);
    s.c.kernels.matmul({.m = slice.rows,
                        .n = h,
                        .k = slice.columns,
                        .x = slice.logits,
                        .x_stride = slice.stride,
                        .weight = s.slice_weight(slice.begin),
                        .accumulate = slice.begin > 0,
                        .y = s.workspace.dnorm});
    if (dmatrix == nullptr) return;
    if (biased)
      return s.c.kernels.weight_gradient({.m = slice.rows,
                                          .n = slice.columns,
                                          .k = h,
                                          .x = s.workspace.norm,
                                          .dy = slice.logits,
                                          .dy_stride = slice.stride,
                                          .dw = dmatrix + u64{slice.begin} * h,
                                          .dbias = of_matrix[bias] + slice.begin,
                                          .accumulate = b.accumulate,
                                          .transposed = true});
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

void final_norm_backward(const BlockContext& c, const BlockBackward& b, const HeadWorkspace& workspace) {
  const WindowGradients g = gradients_of(c, b, final_norm);
  norm_backward(c, weights_of_norm(c, b.windows),
                {.weight = g[NormTensor::weight], .bias = has_bias(g) ? g[NormTensor::bias] : nullptr},
                {.x = b.input,
                 .dy = workspace.dnorm,
                 .dx = b.grad,
                 .accumulate = b.accumulate,
                 .moments = workspace.moments});
}

// Computes one row's logits over the whole vocabulary, for sampling.
void logits_of_row(const BlockContext& c, const BlockForward& f, const HeadWorkspace& workspace) {
  CHECK(f.head.logits_row < rows_of(c), f.head.logits_row);
  const u32 h = c.graph.config.width;
  norm_forward(c, weights_of_norm(c, f.windows),
               {.rows = 1, .x = f.input.at(u64{f.head.logits_row} * h), .y = workspace.norm});
  c.kernels.matmul({.m = 1,
                    .n = c.graph.config.head_rows(),
                    .k = h,
                    .x = workspace.norm,
                    .weight = params_of(c, f.windows, matrix)[weights],
                    .transposed = true,
                    .scale = static_cast<float>(c.graph.config.logits_factor()),
                    .y = f.head.logits});
  if (const double cap = c.graph.config.logits_cap(); cap != 0)
    c.kernels.soft_cap(
        {.elements = c.graph.config.head_rows(), .cap = static_cast<float>(cap), .x = f.head.logits});
}

void give_outputs(const BlockContext& c, const BlockForward& f, const HeadWorkspace& workspace) {
  const ObjectiveRule& rule = c.graph.objective;
  if (rule.output == TargetOutput::distributions)
    return c.kernels.top_distributions(workspace.losses, f.batch.targets, workspace.top, rows_of(c),
                                       rule.divergence.top_k, f.head.outputs);
  c.kernels.target_outputs(workspace.losses, f.batch.targets, rows_of(c), rule.output, f.head.outputs);
}

void losses_of_tile(const BlockContext& c, const BlockForward& f) {
  const HeadWorkspace workspace(c.graph, f.workspace, Direction::forward);
  norm_forward(c, weights_of_norm(c, f.windows), {.rows = rows_of(c), .x = f.input, .y = workspace.norm});
  loss_pass({c, params_of(c, f.windows, matrix), workspace, f.batch}, f.head.sums, 1);
  if (f.head.outputs != nullptr) give_outputs(c, f, workspace);
}

void head_tile_backward(const BlockContext& c, const BlockBackward& b) {
  const HeadWorkspace workspace(c.graph, b.workspace, Direction::backward);
  CHECK(workspace.bytes == block_of(c).backward_workspace, workspace.bytes.value);
  norm_forward(c, weights_of_norm(c, b.windows),
               {.rows = rows_of(c),
                .x = b.input,
                .y = workspace.norm,
                .mean = workspace.moments.mean,
                .rstd = workspace.moments.rstd});
  const Dropout dropout = dropout_of_head(c);
  const u64 elements = u64{rows_of(c)} * c.graph.config.width;
  if (dropout.on()) c.kernels.dropout(dropout, workspace.norm, workspace.norm, elements);
  const Head head = {c, params_of(c, b.windows, matrix), workspace, b.batch};
  loss_pass(head, b.objective.sums, b.objective.inverse_targets);
  gradient_pass(head, b);
  if (dropout.on()) c.kernels.dropout(dropout, workspace.dnorm, workspace.dnorm, elements);
  final_norm_backward(c, b, workspace);
}

}  // namespace

void head_forward(const BlockContext& c, const BlockForward& f) {
  const HeadWorkspace workspace(c.graph, f.workspace, Direction::forward);
  CHECK(workspace.bytes == block_of(c).forward_workspace, workspace.bytes.value);
  if (f.head.sums != nullptr) for_tiles_from_last(c, f, losses_of_tile);
  if (f.head.logits != nullptr) logits_of_row(c, f, workspace);
}

void head_backward(const BlockContext& c, const BlockBackward& b) {
  for_tiles(c, b, head_tile_backward);
  if (b.objective.router_losses != nullptr) add_router_totals(c, b);
}

}  // namespace tidepool
