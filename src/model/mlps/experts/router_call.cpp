#include "model/mlps/experts/router_call.h"

#include "model/block_calls.h"
#include "model/mlps/experts/expert_layouts.h"

namespace tidepool {
namespace {

void logits_of(const BlockContext& c, const RouterWeights& w, ConstValues normed, float* logits) {
  c.kernels.matmul({.m = rows_of(c),
                    .n = c.graph.config.experts.count,
                    .k = c.graph.config.width,
                    .x = normed,
                    .weight = w.weight,
                    .transposed = true,
                    .bias = w.bias,
                    .y = logits});
  w.adapters.add_to(w.module, normed, Values(logits));
}

}  // namespace

RouterScratch router_scratch(const ModelGraph& g, WorkspaceCutter& layout, Direction direction) {
  RouterScratch scratch = {.logits = layout.take<float>(g.batch.rows() * g.config.experts.count)};
  const bool backward = direction == Direction::backward;
  if (g.config.shared_gate()) {
    scratch.shared_gate = layout.take_values(g.activations, g.batch.rows());
    if (backward) scratch.dshared_gate = layout.take_values(g.activations, g.batch.rows());
  }
  if (backward) return scratch;
  scratch.partials = layout.take<double>(router_partials(g.config.experts.count));
  if (!traits(g.config.family).experts->tensors.correction_bias.empty())
    scratch.correction = layout.take<float>(g.config.experts.count);
  return scratch;
}

void route(const BlockContext& c, const RouterWeights& w, const BlockForward& f,
           const RouterScratch& scratch) {
  const ModelConfig& config = c.graph.config;
  const RoutesLayout routes(c.graph, f.experts.routes);
  const RouterSumsLayout sums(c.graph, f.experts.router_sums);
  logits_of(c, w, f.experts.normed, scratch.logits);
  c.kernels.router({.rule = router_rule(config),
                    .rows = rows_of(c),
                    .logits = scratch.logits,
                    .correction = w.correction,
                    .targets = f.batch.targets,
                    .experts = routes.experts,
                    .weights = routes.weights,
                    .sums = sums.of(expert_layer_index(config, block_of(c).layer), config.experts.count),
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
                    ConstValues normed, const BlockBackward& b, const RouterScratch& scratch) {
  const ModelConfig& config = c.graph.config;
  const u32 rows = rows_of(c), h = config.width, experts = config.experts.count;
  const RoutesLayout routes(c.graph, b.experts.routes);
  logits_of(c, w, normed, scratch.logits);
  c.kernels.router_backward({.rule = router_rule(config),
                             .rows = rows,
                             .logits = scratch.logits,
                             .experts = routes.experts,
                             .dweights = b.experts.routes_grad,
                             .targets = b.batch.targets,
                             .counts = RouterSumsLayout(c.graph, b.experts.router_sums).counts,
                             .layers = expert_layer_index(config, config.layers),
                             .losses = {.balance = config.experts.balance ? config.experts.balance_factor : 0,
                                        .z = config.experts.z_factor,
                                        .micro_batches = b.objective.micro_batches},
                             .loss_scale = b.objective.loss_scale,
                             .dlogits = scratch.logits});
  if (d.weight != nullptr)
    c.kernels.weight_gradient({.m = rows,
                               .n = experts,
                               .k = h,
                               .x = normed,
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
                    .accumulate = true,
                    .y = b.experts.normed_grad});
  w.adapters.gradients(w.module, normed, ConstValues(scratch.logits), Values(b.experts.normed_grad),
                       d.adapters);
}

}  // namespace tidepool
