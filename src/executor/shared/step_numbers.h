// StepNumbers holds the numbers of a step that are not chunks: losses, norm partials, inputs of the clip
// factor, flags. They are not in the plan's `scalars` frames, because the host both makes and reads them: on
// the CPU, and of several nodes.
#pragma once

#include <array>
#include <vector>

#include "engine/executor.h"
#include "executor/lanes/tier_memory.h"
#include "executor/shared/norm_layout.h"
#include "executor/shared/step_arrays.h"
#include "executor/shared/step_results.h"
#include "executor/shared/step_source.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// Each number has a place of its own and sums have a fixed order, so results do not depend on which device
// makes a number, or when.
// THREADS: called by compute threads, several at once; the plan's edges order writers before readers.
class StepNumbers {
 public:
  StepNumbers(const Plan&, const ModelGraph&, StepSource&);

  // Sets the scale of the next step.
  // REQUIRES: at rest.
  void set_loss_scale(const LossScale& scale) { first_scale_ = loss_scale_ = scale; }
  // Scale of the step in backward: the plan orders each head's backward after the norm of the previous step.
  const float* loss_scale() const { return &loss_scale_.scale; }

  // RETURNS: the accumulators for the sums of a micro-batch, set to zero.
  Sums* begin_sums(u64 step, u32 micro_batch);
  Sums* sums(u64 step, u32 micro_batch) { return &steps_[step % steps_kept].sums[micro_batch]; }

  // Sets the place to zero.
  RoutingPlace begin_routing(u64 step, u32 micro_batch);

  // Adds norm partials of a finished gradient, or of a device's part of it: elements [begin, begin +
  // elements) of the window.
  void add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad, CorePool&);
  // Several nodes. Writes what this node made of the step for the others. `packed`: as large as the plan's
  // chunk of scalars for it.
  // REQUIRES: this node's part of the step is done.
  void pack(u64 step, u64 vote, std::span<std::byte> packed);
  // Unpacks what `norm` has from other nodes, and makes the step's result.
  // REQUIRES: all gradients of the step have been added, or are among that.
  void finish(const Issue& norm, const TierMemory&);

  // REQUIRES: the step has been finished, and at most two later steps too.
  StepResult result(u64 step) const;
  // As DeviceLanes::loss_scale_of().
  LossScale loss_scale_of(u64 step) const;
  RoutingResult routing(u64 step) const;
  u64 votes(u64 step) const;  // several nodes: of all

 private:
  struct Step {
    u64 step = 0;
    std::vector<Sums> sums;  // by micro-batch
    std::vector<i64> votes;  // by node
    StepResult result;
    // Models with experts only.
    std::vector<RouterLosses> router_losses;  // by micro-batch; the last is the mean of the filled ones
    // By replica, then by other node; the first becomes the sum of all.
    std::vector<std::vector<i64>> expert_tokens;
  };
  void unpack(u64 step, u32 node, std::span<const std::byte> packed);
  double partial(u64 index) const;
  void finish_routing(Step&) const;
  // Calls number(double) or count(i64) for each number that `node` packs, in order.
  template <class Self, class Number, class Count>
  static void for_packed(Self& self, u64 step, u32 node, Number&& number, Count&& count);

  const Precision precision_;
  const Plan& plan_;
  const u32 micro_batches_, replicas_;
  const u32 sums_;                 // sums that the objective makes
  std::vector<u32> trained_cuts_;  // their chunks of parameters, in the order of windows
  const NormLayout layout_;
  StepSource& source_;
  std::array<Step, steps_kept> steps_;
  LossScale loss_scale_, first_scale_;    // now, and as it was set
  std::vector<double> partials_, cells_;  // for the step in backward
};

}  // namespace tidepool
