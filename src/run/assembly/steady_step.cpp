#include "run/assembly/steady_step.h"

#include <algorithm>
#include <map>

namespace tidepool {
namespace {

struct Seen {
  u64 ops = 0;   // recorded ops of the body
  Nanos norm{};  // end of the norm op; 0: not recorded
};

i64 since(Nanos time, Nanos zero) { return static_cast<i64>(time.value) - static_cast<i64>(zero.value); }

}  // namespace

StepTimes steady_step(const Plan& plan, std::span<const TracedOp> events) {
  const Segment& body = plan.segment(SegmentKind::body);
  const auto op_of = [](const TracedOp& e) -> const Op& { return e.segment->ops[index(e.op)]; };
  std::map<u64, Seen> steps;
  for (const TracedOp& e : events) {
    if (e.segment->kind == SegmentKind::evaluation) continue;
    // An update or a norm may belong to the step before the step that its segment runs.
    if (e.segment == &body) ++steps[e.step + op_of(e).steps_back].ops;
    if (op_of(e).kind == OpKind::norm) steps[e.step].norm = e.finished;
  }
  std::vector<std::pair<u64, u64>> complete;  // length, step
  for (const auto& [step, seen] : steps) {
    const auto before = steps.find(step - 1);
    if (seen.ops != body.ops.size() || seen.norm.value == 0 || before == steps.end()) continue;
    if (before->second.norm.value == 0) continue;
    complete.push_back({(seen.norm - before->second.norm).value, step});
  }
  if (complete.empty()) return {};
  std::sort(complete.begin(), complete.end());
  const auto [length, step] = complete[(complete.size() - 1) / 2];
  const Nanos zero = steps[step - 1].norm;
  StepTimes times{.step = step, .length = Nanos{length}};
  times.started_ns.resize(body.ops.size());
  times.finished_ns.resize(body.ops.size());
  for (const TracedOp& e : events) {
    if (e.segment != &body || e.step + op_of(e).steps_back != step) continue;
    times.started_ns[index(e.op)] = since(e.started, zero);
    times.finished_ns[index(e.op)] = since(e.finished, zero);
  }
  return times;
}

StepTimes forecast_step(const Plan& plan, const Forecast& forecast) {
  const u64 ops = plan.segment(SegmentKind::body).ops.size();
  if (forecast.ops.size() != ops) return {};
  StepTimes times{.length = Nanos{static_cast<u64>(forecast.step_seconds * 1e9)}};
  times.started_ns.resize(ops);
  times.finished_ns.resize(ops);
  for (const ForecastOp& op : forecast.ops) {
    times.started_ns[index(op.op)] = static_cast<i64>(op.started.value) - forecast.norm_before_ns;
    times.finished_ns[index(op.op)] = static_cast<i64>(op.finished.value) - forecast.norm_before_ns;
  }
  return times;
}

std::vector<TracedOp> forecast_trace(const Plan& plan, const Forecast& forecast) {
  std::vector<TracedOp> ops;
  for (const ForecastOp& op : forecast.ops)
    ops.push_back({.segment = &plan.segment(SegmentKind::body),
                   .op = op.op,
                   .started = op.started,
                   .finished = op.finished});
  return ops;
}

}  // namespace tidepool
