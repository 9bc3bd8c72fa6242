// step_faults builds errors and messages for a step whose loss or gradient is not finite.
#pragma once

#include <string>

#include "base/result.h"
#include "kernels/gradient/step_result.h"

namespace tidepool {

struct BadStep {
  u64 step = 0;
  StepResult result;
  bool update_was_kept_back = false;
  bool weights_are_the_first = false;  // no update has been applied to the initial weights
  std::string model_directory;         // source of the initial weights; empty: random
  std::string way_on;                  // advice: checkpoint to resume from
};
// ErrorKind::non_finite.
Error non_finite_step(const BadStep&);
// fp16 overflow at the lowest loss scale.
Error no_lower_scale(const BadStep&);
// fp16 overflow while a lower loss scale is possible: a line for people.
std::string overflow_text(u64 step, const StepResult&);

}  // namespace tidepool
