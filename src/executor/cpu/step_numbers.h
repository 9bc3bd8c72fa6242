// The numbers of a step that are not chunks: losses, norm partials, clip factor's ingredients, flags. They
// live here rather than in the plan's `scalars` frames: on the CPU the host both makes and reads them.
#pragma once

#include <array>
#include <mutex>
#include <vector>

#include "executor/step_source.h"
#include "tidepool/core_pool.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

// Called by compute threads, several at once; the plan's edges order who writes what others read. Each
// number has a place of its own and is summed in a fixed order, so that it does not matter which device
// makes it, or when.
class StepNumbers {
 public:
  StepNumbers(const Plan&, const ModelGraph&, StepSource&);

  // Where the head adds up the loss of a micro-batch: zero.
  double* begin_loss(u64 step, u32 micro_batch);

  // Norm partials of a finished gradient, or of the part of it that a device owns: elements
  // [begin, begin + elements) of the window.
  void add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad, CorePool&);
  // REQUIRES: all gradients of the step have been added.
  void finish(u64 step);

  // REQUIRES: the step has been finished, and at most two later ones.
  StepResult result(u64 step) const;

  // Evaluation: micro-batch number `index` of all since the last take_evaluation().
  void add_evaluation(u64 index, double loss_sum, u64 target_tokens);
  EvalResult take_evaluation();  // at rest

 private:
  static constexpr u32 steps_kept = 4;

  struct Step {
    u64 step = 0;
    std::vector<double> losses;  // by micro-batch
    StepResult result;
  };
  // Elements of a window, as granules.
  struct Part {
    u64 begin = 0, end = 0;
    u64 whole_begin = 0, whole_end = 0;  // granules that lie within it; the others it shares with other parts
  };

  Part part_of(u32 window, u64 begin, u64 elements) const;
  void index_shared_granules();
  void add_cells(u32 window, u64 begin, u64 end, const std::byte* grad);
  double partial(u64 index) const;

  const Plan& plan_;
  const ModelGraph& graph_;
  StepSource& source_;
  std::array<Step, steps_kept> steps_;
  std::vector<u64> first_partial_;  // [window]
  std::vector<double> partials_;    // by window and granule; of the step in backward
  std::vector<u32> shared_;         // [partial] where its cells are in cells_, or none
  std::vector<double> cells_;       // of granules that several devices own parts of
  std::mutex evaluation_mutex_;
  std::vector<EvalResult> evaluation_;
};

}  // namespace tidepool
