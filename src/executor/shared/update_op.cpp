#include "executor/shared/update_op.h"

#include "executor/shared/executor_common.h"
#include "executor/shared/operand_cursor.h"

namespace tidepool {

UpdateOp::UpdateOp(ExecutorCommon& common) : common_(common) {
  for (std::vector<u64>& hashes : hashes_) hashes.resize(common.ledger.blocks_max());
}

UpdateOperands update_operands(const Plan& plan, const TierMemory& memory, const Issue& issue) {
  OperandCursor operands(plan, memory, issue);
  UpdateOperands out;
  AdamWChunk& c = out.arrays;
  c.grad = operands.take(has_kind(plan.precision, Kind::grad) ? Kind::grad : Kind::grad_accum).data();
  u32 count = 0;
  const auto state = [&](Kind kind) {
    const Operand& o = operands.next(kind);
    CHECK(o.count == 1, index(o.first), o.count);
    c.elements = plan.chunk(o.first).elements;
    out.ids[count++] = o.first;
    return memory.at(o.frame);
  };
  c.param = state(Kind::param).data();
  if (plan.precision == Precision::fp32) {
    out.ids[count++] = ChunkId{none};
  } else {
    c.master = state(plan.precision == Precision::bf16 ? Kind::master_low : Kind::master).data();
  }
  c.momentum = floats(state(Kind::momentum));
  c.variance = floats(state(Kind::variance));
  return out;
}

void UpdateOp::run(const Issue& issue, const AdamWScalars& scalars) {
  UpdateOperands operands = update_operands(common_.plan, common_.memory, issue);
  AdamWChunk& c = operands.arrays;
  c.segments = common_.decay.of(issue.get().window, issue.get().cut);
  std::span<u64>* const hashes[] = {&c.param_hashes, &c.master_hashes, &c.momentum_hashes,
                                    &c.variance_hashes};
  u64* const seeds[] = {&c.param_seed, &c.master_seed, &c.momentum_seed, &c.variance_seed};
  // Chunks with homes on disk are written next: their checksums are made while tiles are in cache.
  for (u32 i = 0; i < operands.ids.size(); ++i) {
    const ChunkId id = operands.ids[i];
    if (id == ChunkId{none} || common_.plan.homes[index(id)].tier != Tier::disk) continue;
    *hashes[i] = std::span(hashes_[i]).first(common_.ledger.blocks(id));
    *seeds[i] = common_.ledger.next_seed(id);
  }
  adamw(c, common_.plan.precision, scalars, common_.pool);
  for (u32 i = 0; i < operands.ids.size(); ++i)
    if (!hashes[i]->empty())
      common_.ledger.prepare(operands.ids[i], combine_checksums(*hashes[i], *seeds[i]));
}

AdamWScalars update_scalars(const Plan& plan, const StepSource& source, u64 step, const StepResult& result) {
  const StepSettings settings = source.settings(step);
  if (!plan.clipping && !plan.speculates) return adamw_scalars(settings.adamw, step, 0, 0);
  const u64 update = step - result.loss_scale.skipped_steps;
  return adamw_scalars(adamw_step(settings.adamw, update, settings.max_grad_norm), result);
}

}  // namespace tidepool
