// resume_notes() lists settings of a resumed run that differ from those of its checkpoint.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/trainer_state.h"
#include "config/config.h"

namespace tidepool {

// Error: usage, if the run's labels stand for other numbers than before.
Result<void> check_labels_are_the_same(const TrainerState& then,
                                       const std::map<std::string, std::string>& settings);

// Key of Session::algorithms() among the settings.
inline constexpr const char* algorithms_setting = "algorithms of matrix products";

// RETURNS: a line with old and new value for each setting that the numbers depend on and that differs; and,
// if the learning-rate schedule changes, a line with the rate of the next step. Empty: nothing differs.
// REQUIRES: `now` has max_steps in steps, not auto.
// `settings`: numeric_settings(), and those that a session adds.
std::vector<std::string> resume_notes(const TrainerState& then, const Config& now,
                                      const std::map<std::string, std::string>& settings);

}  // namespace tidepool
