#include "trainer/write_trace.h"

#include "engine/op_text.h"
#include "engine/schedule.h"
#include "report/trace.h"

namespace tidepool {
namespace {

bool moves(OpKind kind) { return kind == OpKind::copy || kind == OpKind::read || kind == OpKind::write; }

TraceEvent event_of(const Plan& plan, const Schedule& schedule, const TracedOp& traced) {
  const Op& op = traced.segment->ops[index(traced.op)];
  TraceEvent event{.kind = op.kind,
                   .lane = schedule.lane_number(op.lane),
                   .started = traced.started,
                   .finished = traced.finished,
                   .step = traced.step,
                   .block = op.block,
                   .micro_batch = op.micro_batch,
                   .window = op.window,
                   .cut = op.cut};
  if (moves(op.kind)) {
    const Operand& from = traced.segment->operands_of(op)[0];
    event.moved = plan.chunk(from.first).kind;
    event.bytes = from.frame.bytes;
  }
  return event;
}

}  // namespace

Result<void> write_trace_of(const std::string& path, const Plan& plan, const ModelGraph& graph,
                            const TraceRecorder& recorder) {
  const Schedule schedule(plan);
  TraceNames names;
  for (LaneId lane : schedule.lanes()) names.lanes.push_back(describe(lane));
  for (const Block& block : graph.blocks) names.blocks.push_back(block.name);
  for (const Window& window : graph.windows) names.windows.push_back(window.name);
  std::vector<TraceEvent> events;
  events.reserve(recorder.events().size());
  for (const TracedOp& op : recorder.events()) events.push_back(event_of(plan, schedule, op));
  return write_trace(path, events, names);
}

}  // namespace tidepool
