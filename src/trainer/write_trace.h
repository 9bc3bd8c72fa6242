// From the engine's record of completed ops to trace.json.
#pragma once

#include <string>

#include "engine/trace.h"
#include "tidepool/model_graph.h"

namespace tidepool {

Result<void> write_trace_of(const std::string& path, const Plan&, const ModelGraph&, const TraceRecorder&);

}  // namespace tidepool
