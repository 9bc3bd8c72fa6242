#include "run/assembly/write_trace.h"

#include <cstdio>

#include "base/write_file.h"
#include "engine/op_text.h"
#include "engine/schedule.h"
#include "report/step_file.h"
#include "run/assembly/steady_step.h"

namespace tidepool {
namespace {

bool moves(OpKind kind) { return is_movement(kind) && !is_collective(kind); }

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

TraceProcess process_of(std::string name, const Plan& plan, const Schedule& schedule,
                        std::span<const TracedOp> ops) {
  return {.name = std::move(name), .count = ops.size(), .event = [&plan, &schedule, ops](u64 i) {
            return event_of(plan, schedule, ops[i]);
          }};
}

TraceNames trace_names(const Schedule& schedule, const ModelGraph& graph) {
  TraceNames names{.state_slots = graph.state_slots};
  for (LaneId lane : schedule.lanes()) names.lanes.push_back(describe(lane));
  for (const Block& block : graph.blocks) names.blocks.push_back(block.name);
  for (const Window& window : graph.windows) names.windows.push_back(window.name);
  return names;
}

}  // namespace

Result<void> write_traces(const Session& session, std::span<const TracedOp> measured,
                          const Forecast& forecast) {
  const OutputConfig& output = session.job().config.output;
  const Plan& plan = session.plan();
  const std::string trace_path = output.dir + "/trace.json", step_path = output.dir + "/step.json";
  std::remove(trace_path.c_str());
  std::remove(step_path.c_str());
  if (!output.trace) return {};
  const Schedule schedule(plan);
  const TraceNames names = trace_names(schedule, session.graph());
  const std::vector<TracedOp> predicted = forecast_trace(plan, forecast);
  std::vector<TraceProcess> processes = {process_of("measured", plan, schedule, measured)};
  if (!predicted.empty()) processes.push_back(process_of("predicted", plan, schedule, predicted));
  TRY(write_trace(trace_path, processes, names));
  const StepFile step{.plan = plan,
                      .names = names,
                      .predicted = forecast_step(plan, forecast),
                      .measured = steady_step(plan, measured)};
  return replace_file(step_path, to_json(step), FileUse::run);
}

}  // namespace tidepool
