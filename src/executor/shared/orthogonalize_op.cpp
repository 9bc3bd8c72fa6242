#include "executor/shared/orthogonalize_op.h"

#include "executor/shared/operand_cursor.h"
#include "kernels/orthogonalize/orthogonalize.h"
#include "optimizers/muon/muon.h"

namespace tidepool {

void run_orthogonalize(const BlockOpParts& parts, Kernels& kernels, const Issue& issue) {
  OperandCursor operands(parts.plan, parts.memory, issue);
  const Operand& direction = operands.next(parts.plan.state_slots.gradient());
  const Values values(parts.memory.at(direction.frame).data(), parts.plan.precision);
  std::byte* const workspace = operands.take(Kind::workspace).data();
  const Chunk& chunk = parts.plan.chunk(direction.first);
  const Orthogonalization& rule = parts.graph.rules[chunk.rule].orthogonalization;
  for (const MatrixPlace& matrix : matrices_between(parts.graph.windows[chunk.window], chunk.element_begin,
                                                    chunk.element_begin + chunk.elements))
    orthogonalize(kernels, {.matrix = matrix,
                            .values = values,
                            .scale = adjusted_rate(rule.adjust, matrix.rows, matrix.columns),
                            .steps = rule.steps,
                            .products = parts.graph.activations,
                            .workspace = workspace});
}

}  // namespace tidepool
