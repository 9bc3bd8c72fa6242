#include "executor/cuda/cuda_work.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/op_text.h"
#include "executor/host/gradient_op.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "tidepool/check.h"

namespace tidepool {
namespace {

LinkKind link_of(const Issue& issue) {
  return issue.get().lane.kind == LaneKind::h2d ? LinkKind::h2d : LinkKind::d2h;
}

}  // namespace

CudaWork::CudaWork(const CudaWorkParts& parts)
    : parts_(parts),
      block_{.plan = parts.plan, .graph = parts.graph, .memory = parts.memory, .seed = parts.seed} {}

Result<void> CudaWork::enqueue(const Issue& issue, u32 slot, cudaStream_t stream) {
  start(issue, slot, stream);
  return parts_.kernels.take_refusal();
}

void CudaWork::start(const Issue& issue, u32 slot, cudaStream_t stream) {
  switch (issue.get().kind) {
    case OpKind::copy:
      return copy(issue, stream);
    case OpKind::forward:
      return forward(issue, slot);
    case OpKind::backward:
      return backward(issue);
    case OpKind::gradient:
      return gradient(issue, stream);
    case OpKind::norm:
      return parts_.numbers.finish(issue.step);
    case OpKind::update:
      return update(issue, stream);
    default:
      CHECK(false, issue.sequence, name(issue.get().kind));  // of the host, the disk, or several devices
  }
}

void CudaWork::ended(const Issue& issue, u32 slot) {
  const Op& op = issue.get();
  if (op.kind == OpKind::copy) {
    const Bytes bytes = issue.segment->operands_of(op)[0].frame.bytes;
    copied_[static_cast<u32>(link_of(issue))].fetch_add(bytes.value, std::memory_order_relaxed);
  } else if (op.kind == OpKind::forward && is_head(issue)) {
    parts_.evaluation.add_loss(evaluation_index(parts_.plan, issue), parts_.numbers.evaluation_loss(slot));
    if (wants_logits(issue)) std::ranges::copy(parts_.numbers.fetched_logits(), logits_.logits.begin());
  }
}

std::string CudaWork::describe(const Issue& issue) const {
  u64 bytes = 0;
  for (const Operand& o : issue.segment->operands_of(issue.get())) bytes += o.frame.bytes.value;
  return fmt::format("step {}, {} on {} ({:.2f} MiB)", issue.step,
                     tidepool::describe(parts_.plan, *issue.segment, issue.get()),
                     tidepool::describe(issue.get().lane),
                     static_cast<double>(bytes) / static_cast<double>(mib));
}

void CudaWork::copy(const Issue& issue, cudaStream_t stream) {
  const std::span<const Operand> operands = issue.segment->operands_of(issue.get());
  const std::span<std::byte> from = parts_.memory.at(operands[0].frame),
                             to = parts_.memory.at(operands[1].frame);
  CHECK(from.size() == to.size(), from.size(), to.size());
  cudaMemcpyAsync(to.data(), from.data(), to.size(),
                  link_of(issue) == LinkKind::h2d ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream);
}

bool CudaWork::is_head(const Issue& issue) const {
  return parts_.graph.blocks[issue.get().block].kind == BlockKind::gpt2_head;
}
bool CudaWork::wants_logits(const Issue& issue) const {
  return !logits_.logits.empty() && logits_.micro_batch == issue.get().micro_batch;
}

void CudaWork::forward(const Issue& issue, u32 slot) {
  if (!is_head(issue)) return run_forward(block_, parts_.kernels, issue, {});
  DeviceNumbers& numbers = parts_.numbers;
  const bool wanted = wants_logits(issue);
  run_forward(block_, parts_.kernels, issue,
              {.loss_sum = numbers.begin_evaluation(slot),
               .logits = wanted ? numbers.logits() : nullptr,
               .logits_row = logits_.row});
  numbers.fetch_evaluation(slot, wanted);
}

void CudaWork::backward(const Issue& issue) {
  BackwardHead head;
  if (is_head(issue))
    head = backward_head(parts_.source, issue.step,
                         parts_.numbers.begin_loss(issue.step, issue.get().micro_batch));
  run_backward(block_, parts_.kernels, issue, head);
}

void CudaWork::gradient(const Issue& issue, cudaStream_t stream) {
  const GradientOp op = gradient_op(parts_.plan, parts_.memory, issue);
  finish_gradient_cuda(op.summed(), op.grad, parts_.plan.precision, op.elements, stream);
  parts_.numbers.add_gradient(issue.get().window, op.begin, op.elements, op.grad);
}

void CudaWork::update(const Issue& issue, cudaStream_t stream) {
  UpdateOperands operands = update_operands(parts_.plan, parts_.memory, issue);
  operands.arrays.segments = parts_.numbers.decay_of(issue.get().window, issue.get().cut);
  adamw_cuda(operands.arrays, parts_.plan.precision, parts_.numbers.scalars(issue.step), stream);
}

}  // namespace tidepool
