// StepFile is the content of step.json: one steady step in full, for the page. It has the chunks that each op
// touches, the frames of the chunks, and the predicted and measured times of the ops.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "report/trace.h"
#include "tidepool/plan.h"

namespace tidepool {

// StepTimes holds the times of one run of the body, by op. Time 0 is the end of the step before, which is the
// end of its norm op. Ops of the body before that time, or after the body's own norm, lie outside [0,
// length).
struct StepTimes {
  u64 step = 0;
  Nanos length{};
  std::vector<i64> started_ns;   // [ops]
  std::vector<i64> finished_ns;  // [ops]

  bool known() const { return !started_ns.empty(); }
};

// A body with more ops is stored with its tiers and times only, because a page of 20 MB is of no use.
inline constexpr u32 step_file_ops_max = 40'000;

struct StepFile {
  const Plan& plan;
  TraceNames names;
  StepTimes predicted;  // `predicted` and `measured` may each be unknown
  StepTimes measured;
};
std::string to_json(const StepFile&);

// Checks that `text` is a complete step file of this format. Else ErrorKind::bad_input, with `file_name` and
// the key.
Result<void> check_step_file(std::string_view text, std::string_view file_name);

}  // namespace tidepool
