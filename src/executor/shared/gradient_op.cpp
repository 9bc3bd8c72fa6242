#include "executor/shared/gradient_op.h"

#include "executor/shared/operand_cursor.h"

namespace tidepool {

GradientOp gradient_op(const Plan& plan, const TierMemory& memory, const Issue& issue) {
  GradientOp op;
  for (const Operand& o : issue.segment->operands_of(issue.get())) {
    const Kind kind = plan.chunk(o.first).kind;
    if (kind == Kind::grad_accum) {
      CHECK(op.uses < op.accumulators.size(), op.uses);
      op.accumulators[op.uses++] = floats(memory.at(o.frame));
      op.begin = plan.chunk(o.first).element_begin;
      op.elements = o.frame.bytes.value / sizeof(float);
    } else if (kind == Kind::grad) {
      op.grad = memory.at(o.frame).data();
    }
  }
  CHECK(op.uses > 0, issue.get().window);
  if (!op.grad) op.grad = reinterpret_cast<std::byte*>(const_cast<float*>(op.accumulators[0]));
  return op;
}

}  // namespace tidepool
