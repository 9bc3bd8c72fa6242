#include "executor/cpu/op_runner.h"

#include <algorithm>
#include <cstring>

#include "executor/shared/collective_op.h"
#include "executor/shared/gradient_op.h"
#include "kernels/gradient/gradient.h"

namespace tidepool {
namespace {}  // namespace

OpRunner::OpRunner(const OpRunnerParts& parts)
    : parts_(parts),
      block_{.plan = parts.plan, .graph = parts.graph, .memory = parts.memory, .seed = parts.seed},
      decay_(parts.plan, parts.graph),
      numbers_(parts.plan, parts.graph, parts.source) {
  const UpdateOpParts update{.plan = parts.plan,
                             .graph = parts.graph,
                             .pool = parts.pool,
                             .memory = parts.memory,
                             .ledger = parts.ledger};
  for (u32 lane = 0; lane < 1 + parts.plan.devices; ++lane) updates_.emplace_back(update, decay_);
}

Result<void> OpRunner::run(const Issue& issue) {
  switch (issue.get().kind) {
    case OpKind::load_batch:
      return run_load_batch(parts_.plan, parts_.graph, parts_.memory, parts_.source, evaluation_, issue);
    case OpKind::copy:
      copy(issue);
      break;
    case OpKind::forward:
      forward(issue);
      break;
    case OpKind::backward:
      backward(issue);
      break;
    case OpKind::gradient:
      gradient(issue);
      break;
    case OpKind::norm:
      numbers_.finish(issue.step);
      break;
    case OpKind::update:
      update(issue);
      break;
    case OpKind::all_gather:
      all_gather(issue);
      break;
    case OpKind::reduce_scatter:
      reduce_scatter(issue);
      break;
    case OpKind::read:
    case OpKind::write:
      CHECK(false, issue.sequence);
      break;  // ops of the disk lanes
  }
  return {};
}

// ---- copies

void OpRunner::copy(const Issue& issue) {
  const std::span<const Operand> operands = issue.segment->operands_of(issue.get());
  const std::span<std::byte> to = parts_.memory.at(operands[1].frame);
  copy_bytes(parts_.memory.at(operands[0].frame), to);
  const LinkKind link = issue.get().lane.kind == LaneKind::h2d ? LinkKind::h2d : LinkKind::d2h;
  copied_[static_cast<u32>(link)].fetch_add(to.size(), std::memory_order_relaxed);
}

void OpRunner::copy_bytes(std::span<const std::byte> from, std::span<std::byte> to) {
  CHECK(from.size() == to.size(), from.size(), to.size());
  const u32 pieces = static_cast<u32>(div_up(from.size(), copy_piece_bytes));
  parallel_for(parts_.pool, Priority::high, pieces, [&](u32 piece, u32) {
    const u64 begin = piece * copy_piece_bytes;
    std::memcpy(to.data() + begin, from.data() + begin, std::min(copy_piece_bytes, from.size() - begin));
  });
}

// ---- between devices

// Copies every owner's cuts to each device, cut by cut.
void OpRunner::all_gather(const Issue& issue) {
  u64 moved = 0;
  const CollectiveParts<GatheredCuts> parts = gathered_cuts(parts_.plan, parts_.memory, issue);
  for (const GatheredCuts& cuts : parts.all())
    for (u32 d = 0; d < parts_.plan.devices; ++d) {
      if (cuts.to[d] == nullptr) continue;
      copy_bytes(cuts.from, {cuts.to[d], cuts.from.size()});
      if (d != cuts.owner) moved += cuts.from.size();
    }
  collected_.fetch_add(moved, std::memory_order_relaxed);
}

// Sums each owner's cuts over the devices, in device order.
void OpRunner::reduce_scatter(const Issue& issue) {
  const u32 devices = parts_.plan.devices;
  const CollectiveParts<ScatteredSum> sums = scattered_sums(parts_.plan, parts_.memory, issue);
  for (const ScatteredSum& s : sums.all()) {
    sum_in_order(std::span(s.from).first(devices), s.sum, s.elements, parts_.pool);
    collected_.fetch_add((devices - 1) * s.elements * sizeof(float), std::memory_order_relaxed);
  }
}

// ---- compute

void OpRunner::forward(const Issue& issue) {
  const Op& op = issue.get();
  Kernels& kernels = *parts_.kernels[op.lane.device];
  if (parts_.graph.blocks[op.block].kind != BlockKind::head) return run_forward(block_, kernels, issue, {});
  double loss = 0;
  const bool wanted = !logits_.logits.empty() && logits_.micro_batch == op.micro_batch;
  run_forward(
      block_, kernels, issue,
      {.loss_sum = &loss, .logits = wanted ? logits_.logits.data() : nullptr, .logits_row = logits_.row});
  evaluation_.add_loss(evaluation_index(parts_.plan, issue), loss);
}

void OpRunner::backward(const Issue& issue) {
  const Op& op = issue.get();
  BackwardHead head;
  if (parts_.graph.blocks[op.block].kind == BlockKind::head)
    head = backward_head(parts_.source, issue.step, numbers_.begin_loss(issue.step, op.micro_batch),
                         numbers_.loss_scale());
  run_backward(block_, *parts_.kernels[op.lane.device], issue, head);
}

void OpRunner::gradient(const Issue& issue) {
  const GradientOp op = gradient_op(parts_.plan, parts_.memory, issue);
  finish_gradient(op.summed(), op.grad, parts_.plan.precision, op.elements, parts_.pool);
  numbers_.add_gradient(issue.get().window, op.begin, op.elements, op.grad, parts_.pool);
}

void OpRunner::update(const Issue& issue) {
  const Op& op = issue.get();
  const StepResult result = parts_.plan.clipping ? numbers_.result(issue.step) : StepResult{};
  updates_[op.lane.kind == LaneKind::host ? 0 : 1 + op.lane.device].run(
      issue, update_scalars(parts_.plan, parts_.source, issue.step, result));
}

}  // namespace tidepool
