#include "executor/cuda/product_tuning.h"

#include <cstring>

#include "base/check.h"
#include "base/mix_bits.h"
#include "executor/shared/block_op.h"
#include "kernels/cuda/cuda_error.h"

namespace tidepool {
namespace {

// RETURNS: 16 random bits that are an ordinary number in every precision, of either sign: 0.03 to 1 as the
// upper half of an fp32 number or as bf16, 1.2 to 1.9 as fp16.
u16 noise(u64 i) {
  constexpr u16 least = 0x3d00, span = 0x0280, sign = 0x8000;
  const u64 bits = mix_bits(i);
  return static_cast<u16>((least + bits % span) | ((bits >> 32) & sign));
}

// Copies one piece of noise from the staging memory, then doubles the filled part until the frames are full.
Result<void> fill_frames(const ProductTuningParts& parts) {
  const std::span<std::byte> frames = parts.device.frames();
  const cudaStream_t stream = parts.device.compute();
  const std::string doing = "filling the memory of " + parts.device.name();
  u64 filled = std::min(parts.staging.size(), frames.size());
  for (u64 at = 0; at + sizeof(u16) <= filled; at += sizeof(u16)) {
    const u16 number = noise(at);
    std::memcpy(parts.staging.data() + at, &number, sizeof number);
  }
  TRY_CUDA(cudaMemcpyAsync(frames.data(), parts.staging.data(), filled, cudaMemcpyHostToDevice, stream),
           doing);
  while (filled < frames.size()) {
    const u64 bytes = std::min(filled, frames.size() - filled);
    TRY_CUDA(cudaMemcpyAsync(frames.data() + filled, frames.data(), bytes, cudaMemcpyDeviceToDevice, stream),
             doing);
    filled += bytes;
  }
  TRY_CUDA(cudaStreamSynchronize(stream), doing);
  return {};
}

// `unwritten` is a placeholder: tuning kernels run only products, so nothing writes a loss.
void tune_op(const ProductTuningParts& parts, const Issue& issue) {
  const BlockOpParts block{.plan = parts.plan, .graph = parts.graph, .memory = parts.memory};
  Sums unwritten;
  if (issue.get().kind == OpKind::orthogonalize)
    run_orthogonalize(block, parts.kernels, issue);
  else if (issue.get().kind == OpKind::forward)
    run_forward(block, parts.kernels, issue, {.sums = &unwritten});
  else
    run_backward(block, parts.kernels, issue, {.sums = &unwritten});
}

bool multiplies(const Op& op) {
  return op.kind == OpKind::forward || op.kind == OpKind::backward || op.kind == OpKind::orthogonalize;
}

}  // namespace

Result<void> tune_products(const ProductTuningParts& parts) {
  TRY(fill_frames(parts));
  for (const Segment& segment : parts.plan.segments) {
    for (u32 id = 0; id < segment.ops.size(); ++id) {
      const Issue issue{.segment = &segment, .op = OpId{id}, .step = 1};
      if (issue.get().lane.device != parts.number || !multiplies(issue.get())) continue;
      tune_op(parts, issue);
    }
  }
  return parts.kernels.finish();
}

}  // namespace tidepool
