#include "engine/trace.h"

#include "engine/op_text.h"

namespace tidepool {

std::string TraceRecorder::name(const TracedOp& event) const {
  return describe(plan_, *event.segment, event.segment->ops[index(event.op)]);
}

}  // namespace tidepool
