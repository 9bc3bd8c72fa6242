// Why an op is there and what it waits for, and where a chunk spends a step, in words. All of it is read off
// the finished plan: planning records nothing for it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"
#include "tidepool/policy.h"

namespace tidepool {

struct ExplainInput {
  const Plan& plan;
  const ModelGraph& graph;
  HomePolicy home = HomePolicy::automatic;  // as it was asked for
};

// `what`: "op:812" of the named segment, or "chunk:31" over its course. ErrorKind::usage for anything else,
// naming the range there is.
Result<std::string> explain(const ExplainInput&, std::string_view segment, std::string_view what);

}  // namespace tidepool
