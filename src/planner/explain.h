// Why an op is there and what it waits for, in words.
#pragma once

#include <string>
#include <string_view>

#include "tidepool/model_graph.h"
#include "tidepool/plan.h"
#include "tidepool/result.h"

namespace tidepool {

// `what`: "op:812" of the named segment. ErrorKind::usage for anything else.
Result<std::string> explain(const Plan&, const ModelGraph&, std::string_view segment, std::string_view what);

}  // namespace tidepool
