// Finds the operands of a gradient op: a window's accumulators, or those of a device's part of the window.
#pragma once

#include <array>

#include "engine/executor.h"
#include "executor/lanes/tier_memory.h"
#include "executor/shared/block_op.h"

namespace tidepool {

struct GradientOp {
  std::array<const float*, block_windows_max> accumulators{};
  u32 uses = 0;
  u64 begin = 0, elements = 0;  // range in the window
  std::byte* grad = nullptr;    // in fp32 the first accumulator itself

  std::span<const float* const> summed() const { return std::span(accumulators).first(uses); }
};

GradientOp gradient_op(const Plan&, const TierMemory&, const Issue&);

}  // namespace tidepool
