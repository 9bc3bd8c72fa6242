// Tells a resumed run of settings that are no longer those of its checkpoint.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/trainer_state.h"
#include "config/config.h"

namespace tidepool {

// Session::algorithms() among the settings.
inline constexpr const char* algorithms_setting = "algorithms of matrix products";

// A line for each setting that the numbers depend on and that differs, old and new; and where the schedule of
// the learning rate changes, one that says where it goes on. Empty: nothing differs. `now` names steps;
// `settings`: as numeric_settings(), and what a session adds.
std::vector<std::string> resume_notes(const TrainerState& then, const Config& now,
                                      const std::map<std::string, std::string>& settings);

}  // namespace tidepool
