// What is said of a step whose loss or gradient is no number.
#pragma once

#include <string>
#include <string_view>

#include "kernels/gradient/step_result.h"
#include "tidepool/result.h"

namespace tidepool {

// `way_on`: what can be gone on from. ErrorKind::non_finite.
Error non_finite_step(u64 step, const StepResult&, bool update_was_kept_back, std::string_view way_on);
// fp16 at its lowest loss scale.
Error no_lower_scale(u64 step, const StepResult&, std::string_view way_on);
// fp16, while there is a lower scale: a line for people.
std::string overflow_text(u64 step, const StepResult&);

}  // namespace tidepool
