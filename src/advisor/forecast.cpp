#include "advisor/forecast.h"

#include <algorithm>
#include <map>

#include "engine/engine.h"
#include "executor/sim/sim_executor.h"

namespace tidepool {
namespace {

// Bodies from rest, the first forward-backward included. A body ends where its norm does.
class Bodies final : public NextSegment, public EngineObserver {
 public:
  Bodies(const Plan& plan, const ForecastOptions& options) : profile_(plan), options_(options) {}

  std::optional<SegmentRun> next() override {
    if (step_ == options_.steps) return std::nullopt;
    return SegmentRun{step_++ == 0 ? SegmentKind::forward_backward : SegmentKind::body, step_};
  }
  void segment_started(const SegmentRun& run, u64 first_sequence) override {
    if (run.step == options_.steps) profile_.clear();
    profile_.segment_started(run, first_sequence);
  }
  void completed(const Issue& issue, const Completion& c) override {
    profile_.completed(issue, c);
    const Op& op = issue.get();
    // An update may work for the step before the one that its body runs: it is of this body all the same.
    if (issue.segment->kind == SegmentKind::body && issue.step + op.steps_back == options_.steps) {
      busy_[op.lane] += static_cast<double>((c.finished - c.started).value) * 1e-9;
      if (options_.keep_ops) ops_.push_back({issue.op, c.started, c.finished});
    }
    if (op.kind != OpKind::norm) return;
    before_ = last_;
    last_ = c.finished;
  }
  void segment_finished(const SegmentRun& run) override { profile_.segment_finished(run); }
  void at_rest() override { profile_.at_rest(); }

  Forecast result() && {
    Forecast out;
    out.step_seconds = static_cast<double>((last_ - before_).value) * 1e-9;
    for (const auto& [lane, seconds] : busy_) {
      double& most = out.busy_seconds[static_cast<u32>(lane.kind)];
      most = std::max(most, seconds);
    }
    const PhaseProfile& body = profile_.of(SegmentKind::body);
    double wall = 0;
    for (u32 c = 0; c < cause_count; ++c) wall += static_cast<double>(body.exposed[c].value);
    u32 longest = 0;
    for (u32 c = 0; c < cause_count && wall > 0; ++c) {
      out.exposed_seconds[c] = static_cast<double>(body.exposed[c].value) / wall * out.step_seconds;
      if (body.exposed[c] > body.exposed[longest]) longest = c;
    }
    out.binds = name(static_cast<Cause>(longest));
    std::sort(ops_.begin(), ops_.end(), [](const ForecastOp& a, const ForecastOp& b) {
      return a.started != b.started ? a.started < b.started : index(a.op) < index(b.op);
    });
    const Nanos begin = ops_.empty() ? Nanos{} : ops_.front().started;
    out.norm_before_ns = static_cast<i64>(before_.value) - static_cast<i64>(begin.value);
    for (ForecastOp& op : ops_) op.started = op.started - begin, op.finished = op.finished - begin;
    out.ops = std::move(ops_);
    return out;
  }

 private:
  TimeProfile profile_;
  const ForecastOptions& options_;
  std::map<LaneId, double> busy_;
  std::vector<ForecastOp> ops_;
  u64 step_ = 0;
  Nanos before_{}, last_{};
};

}  // namespace

Result<Forecast> forecast(const Plan& plan, const ModelGraph& graph, const Machine& machine,
                          const ForecastOptions& options) {
  const auto sim = SimExecutor::create(plan, graph, {.machine = machine, .blocks = options.blocks});
  const auto engine = Engine::create(plan, *sim, {.watchdog = Nanos{~u64{0} / 2}});
  Bodies bodies(plan, options);
  TRY(engine->run(bodies, bodies));
  return std::move(bodies).result();
}

}  // namespace tidepool
