// PlanArguments holds the arguments of `tidepool plan`. check_plan_arguments() refuses combinations in which
// an argument would be silently ignored.
#pragma once

#include <string>

#include "base/result.h"
#include "config/config.h"

namespace tidepool {

struct PlanArguments {
  Config config;
  bool text = false;    // print the whole plan, one line per op, instead of the summary
  std::string explain;  // "op:812": why this op exists; "chunk:31": what happens to this chunk
  std::string segment;  // segment that `explain` looks in; empty: "body"
  u64 tokens = 0;       // to train on in total; 0: not given
  bool json = false, gantt = false, what_if = false;
  bool largest = false;  // find the largest model of the family that fits
  bool longest = false;  // find the longest sequence that fits
};

// RETURNS: ErrorKind::usage if arguments do not go together; the message says which do.
Result<void> check_plan_arguments(const PlanArguments&);

}  // namespace tidepool
