// Which arguments of `tidepool plan` go together. What would be passed over in silence is refused.
#pragma once

#include <string>

#include "base/result.h"
#include "config/config.h"

namespace tidepool {

struct PlanArguments {
  Config config;
  bool text = false;    // the whole plan, one line an op, instead of the summary
  std::string explain;  // "op:812": why this op is there; "chunk:31": what becomes of it
  std::string segment;  // of `explain`; "body" if empty
  u64 tokens = 0;       // to train on in all; 0: not told
  bool json = false, gantt = false, what_if = false;
  bool largest = false;  // the largest model of the family that fits
};

// ErrorKind::usage, saying what goes together.
Result<void> check_plan_arguments(const PlanArguments&);

}  // namespace tidepool
