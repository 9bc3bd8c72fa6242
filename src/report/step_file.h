// step.json: one steady step in full, for the page. What each op touches, who lies where, and when the
// ops ran: predicted and measured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "report/trace.h"
#include "tidepool/plan.h"

namespace tidepool {

// Times of one run of the body, by op. Zero is the end of the step before (its norm); what a body does
// ahead of that or after its own norm lies outside [0, seconds).
struct StepTimes {
  u64 step = 0;
  Nanos length{};
  std::vector<i64> started_ns;   // [ops]
  std::vector<i64> finished_ns;  // [ops]

  bool known() const { return !started_ns.empty(); }
};

// A body of more ops is described by its tiers and times only: a page of 20 MB helps nobody.
inline constexpr u32 step_file_ops_max = 40'000;

struct StepFile {
  const Plan& plan;
  TraceNames names;
  StepTimes predicted;  // either may be unknown
  StepTimes measured;
};
std::string to_json(const StepFile&);

// `text` if it is a whole step file of this format; else ErrorKind::bad_input, naming `file_name` and key.
Result<void> check_step_file(std::string_view text, std::string_view file_name);

}  // namespace tidepool
