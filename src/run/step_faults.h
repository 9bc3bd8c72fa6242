// What is said of a step whose loss or gradient is no number.
#pragma once

#include <string>

#include "base/result.h"
#include "kernels/gradient/step_result.h"

namespace tidepool {

struct BadStep {
  u64 step = 0;
  StepResult result;
  bool update_was_kept_back = false;
  bool weights_are_the_first = false;  // no update had been applied to what the run began with
  std::string model_directory;         // which that was of; empty: random
  std::string way_on;                  // what can be gone on from
};
// ErrorKind::non_finite.
Error non_finite_step(const BadStep&);
// fp16 at its lowest loss scale.
Error no_lower_scale(const BadStep&);
// fp16, while there is a lower scale: a line for people.
std::string overflow_text(u64 step, const StepResult&);

}  // namespace tidepool
