#include "model/mlps/experts/router_call.h"

#include <cmath>

#include "model/block_calls.h"
#include "model/mlps/experts/expert_layouts.h"

namespace tidepool {
namespace {

// A router with a norm of its own also divides its input by the root of the width.
float input_factor(const ModelConfig& c) {
  return traits(c.family).experts->tensors.are_branch() ? 1 / std::sqrt(static_cast<float>(c.width)) : 1;
}

// Logits, or their gradients, times that factor: its place is the product, which has fewer columns.
void apply_input_factor(const BlockContext& c, float* logits) {
  Dropout by;
  by.factor = input_factor(c.graph.config);
  if (by.on())
    c.kernels.dropout(by, Values(logits), Values(logits), u64{rows_of(c)} * c.graph.config.experts.count);
}

void logits_of(const BlockContext& c, const RouterWeights& w, ConstValues x, float* logits) {
  c.kernels.matmul({.m = rows_of(c),
                    .n = c.graph.config.experts.count,
                    .k = c.graph.config.width,
                    .x = x,
                    .weight = w.weight,
                    .transposed = true,
                    .bias = w.bias,
                    .y = logits});
  w.adapters.add_to(w.module, x, Values(logits));
  apply_input_factor(c, logits);
}

// A factor is read as a row of a table with one column is, by each choice of its expert.
void factor_gradients(const BlockContext& c, const i32* experts, const RouterScratch& scratch,
                      float* dfactors, bool accumulate) {
  c.kernels.embedding_backward({.sequences = 1,
                                .tokens_per_sequence = rows_of(c) * c.graph.config.experts.chosen,
                                .columns = 1,
                                .vocabulary = c.graph.config.experts.count,
                                .tokens = experts,
                                .dout = ConstValues(scratch.dfactors),
                                .dwte = dfactors,
                                .accumulate = accumulate,
                                .order = scratch.order});
}

}  // namespace

RouterScratch router_scratch(const ModelGraph& g, WorkspaceCutter& layout, Direction direction) {
  RouterScratch scratch = {.logits = layout.take<float>(g.batch.tile_rows() * g.config.experts.count)};
  const bool backward = direction == Direction::backward;
  if (g.config.shared_gate()) {
    scratch.shared_gate = layout.take_values(g.activations, g.batch.tile_rows());
    if (backward) scratch.dshared_gate = layout.take_values(g.activations, g.batch.tile_rows());
  }
  const ExpertTensors& tensors = traits(g.config.family).experts->tensors;
  if (tensors.are_branch())
    scratch.normed = layout.take_values(g.activations, g.batch.tile_rows() * g.config.width);
  if (!tensors.factors.empty()) {
    const u64 choices = g.batch.tile_rows() * g.config.experts.chosen;
    scratch.factors = layout.take<float>(g.config.experts.count);
    if (backward) scratch.dfactors = layout.take<float>(choices);
    if (backward) scratch.order = layout.take<u64>(choices);
  }
  if (backward) return scratch;
  scratch.partials = layout.take<double>(router_partials(g.config.experts.count));
  if (!tensors.correction_bias.empty()) scratch.correction = layout.take<float>(g.config.experts.count);
  return scratch;
}

void route(const BlockContext& c, const RouterWeights& w, ConstValues x, const BlockForward& f,
           const RouterScratch& scratch) {
  const ModelConfig& config = c.graph.config;
  const RoutesLayout routes(c.graph, f.experts.routes);
  const RouterSumsLayout sums(c.graph, f.experts.router_sums);
  logits_of(c, w, x, scratch.logits);
  c.kernels.router({.rule = router_rule(config),
                    .rows = rows_of(c),
                    .logits = scratch.logits,
                    .correction = w.correction,
                    .factors = w.factors,
                    .targets = f.batch.targets,
                    .experts = routes.experts,
                    .weights = routes.weights,
                    .sums = sums.of(expert_layer_index(config, block_of(c).layer), config.experts.count),
                    .add_sums = c.tile.number != 0,
                    .partials = scratch.partials});
}

void add_router_totals(const BlockContext& c, const BlockBackward& b) {
  const ModelConfig& config = c.graph.config;
  c.kernels.router_totals({.chosen = config.experts.chosen,
                           .layers = expert_layer_index(config, config.layers),
                           .experts = config.experts.count,
                           .sums = RouterSumsLayout(c.graph, b.experts.router_sums).of(0, 0),
                           .losses = b.objective.router_losses,
                           .tokens = b.objective.expert_tokens});
}

void route_backward(const BlockContext& c, const RouterWeights& w, const RouterGradients& d,
                    const RouteBackward& r, const BlockBackward& b, const RouterScratch& scratch) {
  const ModelConfig& config = c.graph.config;
  const u32 rows = rows_of(c), h = config.width, experts = config.experts.count;
  const RoutesLayout routes(c.graph, b.experts.routes);
  logits_of(c, w, r.x, scratch.logits);
  c.kernels.router_backward({.rule = router_rule(config),
                             .rows = rows,
                             .logits = scratch.logits,
                             .experts = routes.experts,
                             .dweights = b.experts.routes_grad,
                             .factors = w.factors,
                             .targets = b.batch.targets,
                             .counts = RouterSumsLayout(c.graph, b.experts.router_sums).counts,
                             .layers = expert_layer_index(config, config.layers),
                             .losses = {.balance = config.experts.balance ? config.experts.balance_factor : 0,
                                        .z = config.experts.z_factor,
                                        .micro_batches = b.objective.micro_batches},
                             .loss_scale = b.objective.loss_scale,
                             .dlogits = scratch.logits,
                             .dfactors = d.factors != nullptr ? scratch.dfactors : nullptr});
  if (d.factors != nullptr) factor_gradients(c, routes.experts, scratch, d.factors, b.accumulate);
  apply_input_factor(c, scratch.logits);
  if (d.weight != nullptr)
    c.kernels.weight_gradient({.m = rows,
                               .n = experts,
                               .k = h,
                               .x = r.x,
                               .dy = ConstValues(scratch.logits),
                               .dw = d.weight,
                               .dbias = d.bias,
                               .accumulate = b.accumulate,
                               .transposed = true});
  c.kernels.matmul({.m = rows,
                    .n = h,
                    .k = experts,
                    .x = ConstValues(scratch.logits),
                    .weight = w.weight,
                    .accumulate = r.add,
                    .y = r.dx});
  w.adapters.gradients(w.module, r.x, ConstValues(scratch.logits), r.dx, d.adapters);
}

}  // namespace tidepool
