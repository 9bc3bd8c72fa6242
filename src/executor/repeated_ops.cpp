#include "executor/repeated_ops.h"

#include <algorithm>

namespace tidepool {
namespace {

// Of products in 16 bits, dense: more than any GPU does. A B300 does 2.5e15.
constexpr double flops_per_second_max = 3e15;

bool drops_in_layers(const ModelGraph& graph) {
  return graph.config.attention_dropout > 0 || graph.config.residual_dropout > 0 ||
         (graph.lora.on() && graph.lora.dropout > 0);
}

}  // namespace

// Operands lie in the frames that the plan gives an op, and lengths and constants come from shapes. What
// changes from step to step is either read from device memory (parameters, and where documents begin) or goes
// into launches by value, and is the reason against them:
//   dropout     seed, step and micro-batch
//   head        where its loss is added, by what gradients are divided, whose logits are wanted
//   embedding   nothing but its dropout; it is one kernel, of which a graph would still be one launch
bool launches_repeat(const ModelGraph& graph, const Block& block) {
  return block.kind == BlockKind::layer && !drops_in_layers(graph);
}

bool may_have_short_ops(const ModelGraph& graph) {
  const double flops_max = flops_per_second_max * static_cast<double>(short_op_max.value) * 1e-9;
  return std::ranges::any_of(graph.blocks, [&](const Block& block) {
    return launches_repeat(graph, block) && static_cast<double>(block.forward_flops) < flops_max;
  });
}

}  // namespace tidepool
