// AdamW on one chunk set: unscale, clip, decay, update, cast and checksum in one pass per tile.
// Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (arXiv:1711.05101), as in PyTorch.
#pragma once

#include <span>

#include "kernels/gradient/step_result.h"
#include "tidepool/chunk.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// All scalars of one step, computed in double from the step's numbers alone, and rounded once to float: every
// update of a step computes the same ones. Per-step factors are folded in
// here instead of being applied per element, because host AdamW spends about as long computing as reading.
struct AdamWScalars {
  float beta1 = 0, beta2 = 0;
  // grad_scale / loss_scale times 1 - beta1, and times sqrt(1 - beta2): the square of the second product is
  // added to the variance.
  float grad_to_momentum = 0, grad_to_root = 0;
  // The step is momentum / (sqrt(variance) * root_factor + root_offset). With step_size = lr / (1 - beta1^t)
  // they are 1 / sqrt(1 - beta2^t) / step_size and epsilon / step_size. For lr = 0 they are 0 and infinity,
  // and the step is exactly 0.
  float root_factor = 0;
  float root_offset = 0;
  float decay = 1;       // 1 - lr * weight_decay, for decayed segments
  float grad_scale = 1;  // clip factor (1: none), for reports: the factors above include it
  // non-finite gradient: the state stays unchanged (fp16's param is remade from the master)
  bool skip = false;

  bool operator==(const AdamWScalars&) const = default;
};
struct AdamWSettings {
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
};
// `t` counts updates from 1. Clips as clip_grad_norm_: max_grad_norm / (grad_norm + 1e-6), at most 1.
AdamWScalars adamw_scalars(const AdamWSettings&, u64 t, double grad_norm, double max_grad_norm);

// adamw_scalars() in two parts, because a device knows the norm before the host does. Powers are computed on
// the host; the part that needs the norm is plain IEEE arithmetic wherever the norm is, so host and device
// make the same bits.
struct AdamWStep {
  AdamWScalars unclipped;                         // scalars that do not depend on the norm or the loss scale
  double grad_to_momentum = 0, grad_to_root = 0;  // for a clip factor of 1
  double max_grad_norm = 0;                       // 0: no clipping
};
AdamWStep adamw_step(const AdamWSettings&, u64 t, double max_grad_norm);

constexpr AdamWScalars adamw_scalars(const AdamWStep& step, const StepResult& result) {
  const double clipped = step.max_grad_norm / (result.grad_norm + 1e-6);
  const double grad_scale = step.max_grad_norm > 0 && clipped < 1.0 ? clipped : 1.0;
  AdamWScalars s = step.unclipped;
  const double unscaled = grad_scale / static_cast<double>(result.loss_scale.scale);
  s.grad_to_momentum = static_cast<float>(step.grad_to_momentum * unscaled);
  s.grad_to_root = static_cast<float>(step.grad_to_root * unscaled);
  s.grad_scale = static_cast<float>(grad_scale);
  s.skip = result.skipped;
  return s;
}

// Elements [begin, end) of the chunk with or without decay; ascending, covering the chunk.
struct DecaySegment {
  u64 begin = 0, end = 0;
  bool decay = false;
};

struct AdamWChunk {
  u64 elements = 0;
  const std::byte* grad = nullptr;  // [elements] of the precision: float, bf16 or fp16
  std::byte* param = nullptr;       // same type as grad; in fp16 only written
  std::byte* master = nullptr;      // bf16: remainders, i16. fp16: float. fp32: null
  float* momentum = nullptr;
  float* variance = nullptr;
  std::span<const DecaySegment> segments;
  // Outputs for block checksums, or empty: one XXH3 per checksum_block_elements, per kind, of the new values
  // in memory. The caller chooses seeds (chunk, version).
  std::span<u64> param_hashes, master_hashes, momentum_hashes, variance_hashes;
  u64 param_seed = 0, master_seed = 0, momentum_seed = 0, variance_seed = 0;
};
void adamw(const AdamWChunk&, Precision, const AdamWScalars&, CorePool&);

}  // namespace tidepool
