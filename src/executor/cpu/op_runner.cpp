#include "executor/cpu/op_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "executor/shared/collective_op.h"
#include "executor/shared/gradient_op.h"
#include "kernels/gradient/gradient.h"

namespace tidepool {
OpRunner::OpRunner(ExecutorCommon& common, std::vector<Kernels*> kernels)
    : common_(common),
      kernels_(std::move(kernels)),
      block_{
          .plan = common.plan, .graph = common.graph, .memory = common.memory, .seed = common.request.seed},
      numbers_(common.plan, common.graph, common.request.source) {
  for (u32 device = 0; device < common.plan.devices; ++device) updates_.emplace_back(common);
}

Result<void> OpRunner::run(const Issue& issue) {
  switch (issue.get().kind) {
    case OpKind::copy:
      copy(issue);
      break;
    case OpKind::forward:
      forward(issue);
      break;
    case OpKind::recall:
      run_recall(block_, *kernels_[issue.get().lane.device], issue);
      break;
    case OpKind::backward:
      backward(issue);
      break;
    case OpKind::gradient:
      gradient(issue);
      break;
    case OpKind::norm:
      norm(issue);
      break;
    case OpKind::update:
    case OpKind::direction:
      update(issue);
      break;
    case OpKind::orthogonalize:
      run_orthogonalize(block_, *kernels_[issue.get().lane.device], issue);
      break;
    case OpKind::all_gather:
      all_gather(issue);
      break;
    case OpKind::reduce_scatter:
      reduce_scatter(issue);
      break;
    case OpKind::load_batch:
    case OpKind::lookup:
    case OpKind::read:
    case OpKind::write:
    case OpKind::combine:
    case OpKind::pack:
    case OpKind::send:
    case OpKind::receive:
    case OpKind::commit:
      CHECK(false, issue.sequence);
      break;  // ops of the host, the disk or the network
  }
  return {};
}

// ---- copies

void OpRunner::copy(const Issue& issue) {
  const std::span<const Operand> operands = issue.segment->operands_of(issue.get());
  const std::span<std::byte> from = common_.memory.at(operands[0].frame);
  const u64 bytes = useful_bytes(common_.plan, operands[0], from);
  copy_bytes(from.first(bytes), common_.memory.at(operands[1].frame).first(bytes));
  const LinkKind link = issue.get().lane.kind == LaneKind::h2d ? LinkKind::h2d : LinkKind::d2h;
  common_.moved.add(link, bytes);
}

void OpRunner::copy_bytes(std::span<const std::byte> from, std::span<std::byte> to) {
  CHECK(from.size() == to.size(), from.size(), to.size());
  const u32 pieces = static_cast<u32>(div_up(from.size(), copy_piece_bytes));
  parallel_for(common_.pool, Priority::high, pieces, [&](u32 piece, u32) {
    const u64 begin = piece * copy_piece_bytes;
    std::memcpy(to.data() + begin, from.data() + begin, std::min(copy_piece_bytes, from.size() - begin));
  });
}

// ---- between devices

// Copies every owner's cuts to each device, cut by cut.
void OpRunner::all_gather(const Issue& issue) {
  u64 moved = 0;
  const CollectiveParts<GatheredCuts> parts = gathered_cuts(common_.plan, common_.memory, issue);
  for (const GatheredCuts& cuts : parts.all())
    for (u32 d = 0; d < common_.plan.replicas(); ++d) {
      if (cuts.to[d] == nullptr) continue;
      copy_bytes(cuts.from, {cuts.to[d], cuts.from.size()});
      if (d != cuts.owner) moved += cuts.from.size();
    }
  common_.moved.add_between_devices(moved);
}

// Sums each owner's cuts over the devices, in device order.
void OpRunner::reduce_scatter(const Issue& issue) {
  const u32 devices = common_.plan.replicas();
  const CollectiveParts<ScatteredSum> sums = scattered_sums(common_.plan, common_.memory, issue);
  for (const ScatteredSum& s : sums.all()) {
    sum_in_order(std::span(s.from).first(devices), s.sum, s.elements, common_.pool);
    common_.moved.add_between_devices((devices - 1) * s.elements * sizeof(float));
  }
}

// ---- compute

void OpRunner::forward(const Issue& issue) {
  const Op& op = issue.get();
  Kernels& kernels = *kernels_[op.lane.device];
  if (common_.graph.blocks[op.block].kind != BlockKind::head) return run_forward(block_, kernels, issue, {});
  const u64 index = evaluation_index(common_.plan, issue);
  Sums sums = common_.evaluation.sums(index);  // pieces add to those of the pieces before
  const LogitsRequest& asked = common_.logits;
  const RowPiece piece = common_.graph.batch.piece(op.piece);
  const bool wanted = asked.wants(op.micro_batch) && asked.row - piece.first_row < piece.rows;
  run_forward(block_, kernels, issue,
              {.sums = &sums,
               .outputs = common_.outputs != nullptr ? common_.outputs->place(index).data() : nullptr,
               .logits = wanted ? asked.logits.data() : nullptr,
               .logits_row = asked.row - static_cast<u32>(piece.first_row)});
  common_.evaluation.set_sums(index, sums);
}

void OpRunner::backward(const Issue& issue) {
  const Op& op = issue.get();
  ObjectiveBackward objective;
  const BlockKind kind = common_.graph.blocks[op.block].kind;
  if (kind == BlockKind::head) {
    const bool begins = op.piece + 1 == common_.plan.pieces;  // the last piece comes first
    objective = head_backward(common_.request.source, issue.step,
                              begins ? numbers_.begin_sums(issue.step, op.micro_batch)
                                     : numbers_.sums(issue.step, op.micro_batch),
                              numbers_.loss_scale());
    if (begins) {
      const RoutingPlace routing = numbers_.begin_routing(issue.step, op.micro_batch);
      objective.router_losses = routing.losses, objective.expert_tokens = routing.tokens;
    }
  } else if (kind == BlockKind::attention) {
    objective.loss_scale = numbers_.loss_scale();
    objective.micro_batches =
        filled_micro_batches(common_.request.source, issue.step, common_.plan.micro_batches);
  }
  run_backward(block_, *kernels_[op.lane.device], issue, objective);
}

void OpRunner::gradient(const Issue& issue) {
  const GradientOp op = gradient_op(common_.plan, common_.memory, issue);
  finish_gradient(op.summed(), op.grad, common_.plan.precision, op.elements, common_.pool);
  numbers_.add_gradient(issue.get().window, op.begin, op.elements, op.grad, common_.pool);
}

void OpRunner::norm(const Issue& issue) { numbers_.finish(issue, common_.memory); }

void OpRunner::update(const Issue& issue) {
  const Op& op = issue.get();
  updates_[op.lane.device].run(issue,
                               result_for_updates(common_.plan, common_.replayed, numbers_, issue.step));
}

}  // namespace tidepool
