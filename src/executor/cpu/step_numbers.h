// The numbers of a step that are not chunks: losses, norm partials, clip factor's ingredients, flags. They
// live here rather than in the plan's `scalars` frames: on the CPU the host both makes and reads them.
#pragma once

#include <array>
#include <vector>

#include "executor/shared/norm_layout.h"
#include "executor/shared/step_source.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// Called by compute threads, several at once; the plan's edges order who writes what others read. Each
// number has a place of its own and is summed in a fixed order, so that it does not matter which device
// makes it, or when.
class StepNumbers {
 public:
  StepNumbers(const Plan&, const ModelGraph&, StepSource&);

  // At rest: of the next step.
  void set_loss_scale(const LossScale& scale) { loss_scale_ = scale; }
  // Of the step in backward: the plan orders each head's backward after the norm of the step before.
  const float* loss_scale() const { return &loss_scale_.scale; }

  // Where the head adds up the loss of a micro-batch: zero.
  double* begin_loss(u64 step, u32 micro_batch);

  // Norm partials of a finished gradient, or of the part of it that a device owns: elements
  // [begin, begin + elements) of the window.
  void add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad, CorePool&);
  // REQUIRES: all gradients of the step have been added.
  void finish(u64 step);

  // REQUIRES: the step has been finished, and at most two later ones.
  StepResult result(u64 step) const;

 private:
  static constexpr u32 steps_kept = 4;

  struct Step {
    u64 step = 0;
    std::vector<double> losses;  // by micro-batch
    StepResult result;
  };
  double partial(u64 index) const;

  const Precision precision_;
  const NormLayout layout_;
  StepSource& source_;
  std::array<Step, steps_kept> steps_;
  LossScale loss_scale_;
  std::vector<double> partials_, cells_;  // of the step in backward
};

}  // namespace tidepool
