// StepFile writes step.json: one complete steady step for the report's page. It has the operands of each op,
// the frames of all chunks over time, and the predicted and measured times of the ops.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "report/trace.h"
#include "tidepool/plan.h"

namespace tidepool {

// Times of one run of the body, by op. Zero is the end of the step before (its norm). Ops that the body runs
// before that or after its own norm lie outside of [0, seconds).
struct StepTimes {
  u64 step = 0;
  Nanos length{};
  std::vector<i64> started_ns;   // [ops]
  std::vector<i64> finished_ns;  // [ops]

  bool known() const { return !started_ns.empty(); }
};

// For a body with more ops, only tiers and times are written: a page of 20 MB is no use.
inline constexpr u32 step_file_ops_max = 40'000;

struct StepFile {
  const Plan& plan;
  TraceNames names;
  StepTimes predicted;  // may be unknown
  StepTimes measured;
};
std::string to_json(const StepFile&);

// Checks that `text` is a complete step file of this format.
// Error: bad_input, naming `file_name` and key.
Result<void> check_step_file(std::string_view text, std::string_view file_name);

}  // namespace tidepool
