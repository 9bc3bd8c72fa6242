#include "executor/shared/update_op.h"

#include "base/check.h"
#include "executor/shared/executor_common.h"
#include "executor/shared/operand_cursor.h"

namespace tidepool {

UpdateOp::UpdateOp(ExecutorCommon& common) : common_(common) {
  for (u32 i = 0; i < 1 + common.plan.state_slots.count(); ++i) hashes_[i].resize(common.ledger.blocks_max());
  scratch_.resize(update_scratch(common.graph).value);
}

UpdateOperands update_operands(const Plan& plan, const ModelGraph& graph, const TierMemory& memory,
                               const Issue& issue) {
  OperandCursor operands(plan, memory, issue);
  UpdateOperands out;
  const auto add = [&](const Operand& o) {
    CHECK(o.count == 1, index(o.first), o.count);
    out.chunk.arrays[out.arrays].data = memory.at(o.frame).data();
    out.ids[out.arrays++] = o.first;
  };
  const auto take = [&](Kind kind) {
    // Only along rows and columns can a chunk set have nothing of its rule's slot.
    const bool always = plan.state_slots.axis(kind) == SlotAxis::elements;
    const Operand* operand = always ? &operands.next(kind) : operands.next_if(kind);
    operand != nullptr ? add(*operand) : static_cast<void>(++out.arrays);
  };
  const Operand& gradient = operands.next(plan.state_slots.gradient());
  out.chunk.grad = memory.at(gradient.frame).data();
  const Chunk& updated = plan.chunk(gradient.first);
  out.chunk.elements = updated.elements;
  out.rule = updated.rule;
  if (issue.get().kind == OpKind::direction) {
    out.part = UpdatePart::direction;
    add(gradient);
  } else {
    if (graph.rules[out.rule].place == UpdatePlace::streamed) out.part = UpdatePart::step;
    add(operands.next(Kind::param));
  }
  plan.state_slots.each_of_part(out.rule, out.part, take);
  return out;
}

Rounding rounding_of(const ModelGraph& graph, const Chunk& chunk) {
  const Window& window = graph.windows[chunk.window];
  const u64 begin = window.group_begin + chunk.element_begin;
  CHECK(begin % slot_block_elements == 0, chunk.window, begin);
  return {.seed = rounding_seed(window.group.empty() ? window.name : window.group),
          .first_block = begin / slot_block_elements};
}

void UpdateOp::run(const Issue& issue, const StepResult& result) {
  auto [chunk, number, part, arrays, ids] =
      update_operands(common_.plan, common_.graph, common_.memory, issue);
  chunk.segments = common_.updates.decay_of(issue.get().window, issue.get().cut);
  chunk.tensors = common_.updates.tensors_of(issue.get().window, issue.get().cut);
  chunk.scratch = scratch_;
  chunk.rounding = rounding_of(common_.graph, common_.plan.chunk(ids[0]));
  // Chunks with homes on disk are written next: their checksums are made while tiles are in cache.
  for (u32 i = 0; i < arrays; ++i) {
    if (chunk.arrays[i].data == nullptr || common_.plan.homes[index(ids[i])].tier != Tier::disk) continue;
    chunk.arrays[i].hashes = std::span(hashes_[i]).first(common_.ledger.blocks(ids[i]));
    chunk.arrays[i].seed = common_.ledger.next_seed(ids[i]);
  }
  const UpdateRule& rule = common_.graph.rules[number];
  update(chunk, common_.plan.state_slots.of_rule(number), part, rule.optim,
         scalars_of_step(common_.plan, rule, common_.request.source, issue.step, result), common_.pool);
  for (u32 i = 0; i < arrays; ++i)
    if (const UpdateArray& array = chunk.arrays[i]; !array.hashes.empty())
      common_.ledger.prepare(ids[i], combine_checksums(array.hashes, array.seed));
}

UpdateScalars scalars_of_step(const Plan& plan, const UpdateRule& rule, const StepSource& source, u64 step,
                              const StepResult& result) {
  const StepSettings settings = source.settings(step);
  if (!plan.clipping && !plan.speculates)
    return update_scalars(update_step(rule, settings.optimizer, step, 0), {});
  const u64 number = step - result.loss_scale.skipped_steps;
  return update_scalars(update_step(rule, settings.optimizer, number, settings.max_grad_norm), result);
}

}  // namespace tidepool
