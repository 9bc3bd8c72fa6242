// explain() says in words why an op is there and what it waits for, and where a chunk is during a step. It
// reads everything from the finished plan: planning keeps nothing for it.
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
  HomePolicy home = HomePolicy::automatic;  // as the user asked
};

// `what`: "op:812" for an op of the named segment, "chunk:31" for the life of a chunk.
// Errors: ErrorKind::usage for anything else, naming the valid range.
Result<std::string> explain(const ExplainInput&, std::string_view segment, std::string_view what);

}  // namespace tidepool
