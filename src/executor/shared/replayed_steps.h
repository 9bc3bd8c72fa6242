// ReplayedSteps holds the known results of steps that are replayed: each was trained before, and its updates
// assumed another result.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/gradient/step_result.h"

namespace tidepool {

// THREADS: changed at rest only; any thread may ask.
class ReplayedSteps {
 public:
  void add(u64 step, const StepResult& result) {
    std::erase_if(steps_, [&](const Step& s) { return s.step == step; });
    steps_.push_back({step, result});
  }
  // Steps up to this one will not be trained again.
  void forget_until(u64 step) {
    std::erase_if(steps_, [&](const Step& s) { return s.step <= step; });
  }
  // RETURNS: null if nothing is known.
  const StepResult* find(u64 step) const {
    const auto found = std::ranges::find(steps_, step, &Step::step);
    return found == steps_.end() ? nullptr : &found->result;
  }

 private:
  struct Step {
    u64 step = 0;
    StepResult result;
  };
  std::vector<Step> steps_;  // few
};

}  // namespace tidepool
