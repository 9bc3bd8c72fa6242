#include "executor/cuda/cuda_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/op_text.h"
#include "executor/shared/gradient_op.h"
#include "executor/shared/update_op.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "optimizers/optimizers_cuda.h"

namespace tidepool {
namespace {

LinkKind link_of(const Issue& issue) {
  return issue.get().lane.kind == LaneKind::h2d ? LinkKind::h2d : LinkKind::d2h;
}

}  // namespace

CudaWork::CudaWork(ExecutorCommon& common, std::vector<CudaWorkDevice> devices, Collectives* collectives,
                   NodeNumbers* nodes)
    : common_(common),
      devices_(std::move(devices)),
      collectives_(collectives),
      nodes_(nodes),
      block_{
          .plan = common.plan, .graph = common.graph, .memory = common.memory, .seed = common.request.seed} {}

Result<void> CudaWork::enqueue(const Issue& issue, u32 slot, cudaStream_t stream) {
  TRY(start(issue, slot, stream));
  return is_collective(issue.get().kind) ? Result<void>() : kernels(issue).take_refusal();
}

Result<void> CudaWork::start(const Issue& issue, u32 slot, cudaStream_t stream) {
  switch (issue.get().kind) {
    case OpKind::copy:
      copy(issue, stream);
      break;
    case OpKind::forward:
      forward(issue, slot);
      break;
    case OpKind::recall:
      run_recall(block_, kernels(issue), issue);
      break;
    case OpKind::backward:
      backward(issue);
      break;
    case OpKind::gradient:
      gradient(issue, stream);
      break;
    case OpKind::norm:
      norm(issue);
      break;
    case OpKind::update:
    case OpKind::direction:
      update(issue, stream);
      break;
    case OpKind::orthogonalize:
      run_orthogonalize(block_, kernels(issue), issue);
      break;
    case OpKind::all_gather:
      return all_gather(issue);
    case OpKind::reduce_scatter:
      return reduce_scatter(issue);
    default:
      CHECK(false, issue.sequence, name(issue.get().kind));  // ops of the host or the disk
  }
  return {};
}

Result<void> CudaWork::ended(const Issue& issue, u32 slot, Nanos) {
  const Op& op = issue.get();
  const std::span<const Operand> operands = issue.segment->operands_of(op);
  if (op.kind == OpKind::copy) {
    const std::span<std::byte> from =
        operands[0].frame.tier == Tier::host ? common_.memory.at(operands[0].frame) : std::span<std::byte>();
    common_.moved.add(link_of(issue), useful_bytes(common_.plan, operands[0], from));
  } else if (is_collective(op.kind)) {
    TRY(collectives_->health());
  } else if (op.kind == OpKind::forward && is_head(issue)) {
    const DeviceNumbers& of_device = numbers(issue);
    const u64 index = evaluation_index(common_.plan, issue);
    common_.evaluation.set_sums(index, of_device.evaluation_sums(slot));
    if (common_.outputs != nullptr) {
      const RowPiece piece = common_.graph.batch.piece(op.piece);
      const u64 of_row = common_.graph.objective.outputs(), begin = piece.first_row * of_row;
      std::ranges::copy(of_device.fetched_outputs(slot).subspan(begin, piece.rows * of_row),
                        common_.outputs->place(index).begin() + static_cast<i64>(begin));
    }
    if (wants_logits(issue)) std::ranges::copy(of_device.fetched_logits(), common_.logits.logits.begin());
  }
  return {};
}

std::string CudaWork::describe(const Issue& issue) const {
  u64 bytes = 0;
  for (const Operand& o : issue.segment->operands_of(issue.get())) bytes += o.frame.bytes.value;
  return fmt::format("step {}, {} on {} ({:.2f} MiB)", issue.step,
                     tidepool::describe(common_.plan, *issue.segment, issue.get()),
                     tidepool::describe(issue.get().lane),
                     static_cast<double>(bytes) / static_cast<double>(mib));
}

void CudaWork::copy(const Issue& issue, cudaStream_t stream) {
  const std::span<const Operand> operands = issue.segment->operands_of(issue.get());
  const std::span<std::byte> from = common_.memory.at(operands[0].frame),
                             to = common_.memory.at(operands[1].frame);
  CHECK(from.size() == to.size(), from.size(), to.size());
  cudaMemcpyAsync(to.data(), from.data(), useful_bytes(common_.plan, operands[0], from),
                  link_of(issue) == LinkKind::h2d ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream);
}

bool CudaWork::is_head(const Issue& issue) const {
  return common_.graph.blocks[issue.get().block].kind == BlockKind::head;
}
bool CudaWork::wants_logits(const Issue& issue) const {
  const RowPiece piece = common_.graph.batch.piece(issue.get().piece);
  return common_.logits.wants(issue.get().micro_batch) && common_.logits.row - piece.first_row < piece.rows;
}
// The head's last piece comes first.
bool CudaWork::continues(const Issue& issue) const { return issue.get().piece + 1 != common_.plan.pieces; }

void CudaWork::forward(const Issue& issue, u32 slot) {
  if (!is_head(issue)) return run_forward(block_, kernels(issue), issue, {});
  DeviceNumbers& of_device = numbers(issue);
  const bool wanted = wants_logits(issue);
  run_forward(block_, kernels(issue), issue,
              {.sums = of_device.begin_evaluation(slot, continues(issue)),
               .outputs = common_.outputs != nullptr ? of_device.outputs(slot) : nullptr,
               .logits = wanted ? of_device.logits() : nullptr,
               .logits_row = common_.logits.row -
                             static_cast<u32>(common_.graph.batch.piece(issue.get().piece).first_row)});
  of_device.fetch_evaluation(slot, wanted);
}

void CudaWork::backward(const Issue& issue) {
  ObjectiveBackward objective;
  if (common_.graph.blocks[issue.get().block].kind == BlockKind::attention) {
    objective.loss_scale = numbers(issue).loss_scale(issue.step, *devices_.front().numbers);
    objective.micro_batches =
        filled_micro_batches(common_.request.source, issue.step, common_.plan.micro_batches);
  }
  if (!is_head(issue)) return run_backward(block_, kernels(issue), issue, objective);
  DeviceNumbers& of_device = numbers(issue);
  const u32 micro_batch = issue.get().micro_batch;
  Sums* const sums = continues(issue) ? of_device.sums(issue.step, micro_batch)
                                      : of_device.begin_sums(issue.step, micro_batch);
  objective = head_backward(common_.request.source, issue.step, sums,
                            of_device.loss_scale(issue.step, *devices_.front().numbers));
  if (!continues(issue)) {
    const RoutingPlace routing = of_device.begin_routing(issue.step, micro_batch);
    objective.router_losses = routing.losses, objective.expert_tokens = routing.tokens;
  }
  run_backward(block_, kernels(issue), issue, objective);
  of_device.fetch_sums(issue.step, micro_batch);
  const Plan& plan = common_.plan;
  const bool last = micro_batch + plan.replicas() * plan.nodes >= plan.micro_batches;  // of this device
  if (last && !continues(issue)) of_device.fetch_routing(issue.step);
}

void CudaWork::gradient(const Issue& issue, cudaStream_t stream) {
  const GradientOp op = gradient_op(common_.plan, common_.memory, issue);
  finish_gradient_cuda(op.summed(), op.grad, common_.plan.precision, op.elements, stream);
  numbers(issue).add_gradient(issue.get().window, op.begin, op.elements, op.grad);
}

void CudaWork::update(const Issue& issue, cudaStream_t stream) {
  UpdateOperands operands = update_operands(common_.plan, common_.graph, common_.memory, issue);
  operands.chunk.segments = numbers(issue).decay_of(issue.get().window, issue.get().cut);
  operands.chunk.tensors = common_.updates.tensors_of(issue.get().window, issue.get().cut);
  operands.chunk.scratch = numbers(issue).update_scratch();
  operands.chunk.rounding = rounding_of(common_.graph, common_.plan.chunk(operands.ids[0]));
  const DeviceNumbers& of_norm = *devices_.front().numbers;
  const UpdateRule& rule = common_.graph.rules[operands.rule];
  const UpdateScalars* scalars = nullptr;
  if (common_.plan.speculates) {
    const StepResult assumed = result_for_updates(common_.plan, common_.replayed, of_norm, issue.step);
    scalars = numbers(issue).put_scalars(
        scalars_of_step(common_.plan, rule, common_.request.source, issue.step, assumed));
  } else {
    scalars = numbers(issue).scalars(issue.step, rule, of_norm);
  }
  update_cuda(operands.chunk, common_.plan.precision, operands.part, rule.optim, scalars, stream);
}

// ---- collectives

// Runs on the first device; the numbers of the other devices are copied there. Several nodes run it in the
// host at once: it follows `pack`, and so all ops of devices that make a number.
void CudaWork::norm(const Issue& issue) {
  if (nodes_ != nullptr) return nodes_->finish(issue);
  DeviceNumbers& first = numbers(issue);
  for (const CudaWorkDevice& device : devices_)
    if (device.numbers != &first) first.add(*device.numbers, issue.step);
  first.finish(issue.step);
}

Result<void> CudaWork::all_gather(const Issue& issue) {
  const CollectiveParts<GatheredCuts> cuts = gathered_cuts(common_.plan, common_.memory, issue);
  TRY(collectives_->all_gather(cuts.all()));
  for (const GatheredCuts& c : cuts.all())
    common_.moved.add_between_devices((common_.plan.devices - 1) * c.from.size());
  return {};
}

Result<void> CudaWork::reduce_scatter(const Issue& issue) {
  const CollectiveParts<ScatteredSum> sums = scattered_sums(common_.plan, common_.memory, issue);
  TRY(collectives_->reduce_scatter(sums.all()));
  for (const ScatteredSum& s : sums.all())
    common_.moved.add_between_devices((common_.plan.devices - 1) * s.elements * sizeof(float));
  return {};
}

}  // namespace tidepool
