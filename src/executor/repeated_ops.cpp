#include "executor/repeated_ops.h"

#include <algorithm>

namespace tidepool {
namespace {

// Rate of dense 16-bit products above that of any GPU. A B300 reaches 2.5e15.
constexpr double flops_per_second_max = 3e15;

bool drops_in_layers(const ModelGraph& graph) {
  return graph.config.attention.dropout > 0 || graph.config.residual_dropout > 0 ||
         (graph.lora.on() && graph.lora.dropout > 0);
}

}  // namespace

// Operands lie in the frames that the plan gives an op, and lengths and constants come from shapes. Values
// that change from step to step are either read from device memory (parameters, the batch), or
// passed to launches by value. The latter prevent a graph:
//   dropout     seed, step and micro-batch
//   head        address of its loss, divisor of gradients, row of requested logits
//   embedding   only its dropout; but it is one kernel, and its graph would also be one launch
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
