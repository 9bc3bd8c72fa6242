#include "fit/forecast.h"

#include <algorithm>
#include <map>
#include <span>

#include "engine/engine.h"
#include "executor/sim/sim_executor.h"

namespace tidepool {
namespace {

// Deadline stops an engine by failing an op: ops in flight end, and no more are issued.
class Deadline final : public Executor {
 public:
  explicit Deadline(Executor& executor) : executor_(executor) {}

  void set(Nanos at) { at_ = at; }
  void lift() { at_ = never; }
  bool passed() const { return passed_; }

  u32 slots_free(LaneId lane) const override { return executor_.slots_free(lane); }
  void submit(const Issue& issue, std::span<const u64> in_flight) override {
    executor_.submit(issue, in_flight);
  }
  std::span<const Completion> wait() override {
    const std::span<const Completion> completions = executor_.wait();
    if (completions.empty() || completions.front().error != nullptr || completions.front().finished <= at_)
      return completions;
    passed_ = true;
    late_ = completions.front();  // the simulator completes one at a time
    late_.error = &error_;
    return {&late_, 1};
  }
  Nanos now() const override { return executor_.now(); }

 private:
  Executor& executor_;
  static constexpr Nanos never{~u64{0}};
  Nanos at_ = never;
  bool passed_ = false;
  Completion late_;
  const Error error_{ErrorKind::internal, "not worth replaying to its end"};
};

// Bodies runs bodies from rest, the first forward-backward included. A body ends at its norm.
class Bodies final : public NextSegment, public EngineObserver {
 public:
  Bodies(const Plan& plan, const ForecastOptions& options, Deadline& deadline)
      : profile_(plan),
        options_(options),
        deadline_(deadline),
        persists_(options.persists.value_or(!persists_resting_state(plan))) {}

  std::optional<SegmentRun> next() override {
    if (step_ == options_.steps) return std::nullopt;
    const SegmentKind kind = step_ == 0 ? SegmentKind::forward_backward : SegmentKind::body;
    return SegmentRun{kind, ++step_, persists_};
  }
  void segment_started(const SegmentRun& run, u64 first_sequence) override {
    if (run.step == options_.steps) profile_.clear();
    profile_.segment_started(run, first_sequence);
  }
  void completed(const Issue& issue, const Completion& c) override {
    profile_.completed(issue, c);
    const Op& op = issue.get();
    // An update may belong to the step before its body's step; it counts for this body all the same.
    if (issue.segment->kind == SegmentKind::body && issue.step + op.steps_back == options_.steps) {
      busy_[op.lane] += static_cast<double>((c.finished - c.started).value) * 1e-9;
      if (options_.keep_ops) ops_.push_back({issue.op, c.started, c.finished});
    }
    if (op.kind != OpKind::norm) return;
    before_ = last_;
    last_ = c.finished;
    ++norms_;
    if (norms_ + 1 == options_.steps && options_.worth_seconds < 1e9)
      deadline_.set(last_ + Nanos{static_cast<u64>(options_.worth_seconds * 1e9)});
    if (norms_ == options_.steps) deadline_.lift();  // later work is not part of this step
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
    for (u32 c = 0; c < cause_count && wall > 0; ++c)
      out.exposed_seconds[c] = static_cast<double>(body.exposed[c].value) / wall * out.step_seconds;
    out.binds = binding_resource(body);
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
  Deadline& deadline_;
  const bool persists_;
  u32 norms_ = 0;
  std::map<LaneId, double> busy_;
  std::vector<ForecastOp> ops_;
  u64 step_ = 0;
  Nanos before_{}, last_{};
};

}  // namespace

Result<Forecast> forecast(const Plan& plan, const ModelGraph& graph, const Machine& machine,
                          const ForecastOptions& options) {
  const auto sim = SimExecutor::create(
      plan, graph, {.machine = machine, .seconds = options.seconds, .check_tags = options.check_tags});
  Deadline deadline(*sim);
  const auto engine = Engine::create(plan, deadline, {.watchdog = Nanos{~u64{0} / 2}});
  Bodies bodies(plan, options, deadline);
  Result<void> ran = engine->run(bodies, bodies);
  if (!ran && !deadline.passed()) return std::move(ran).error();
  Forecast out = std::move(bodies).result();
  if (deadline.passed()) out.step_seconds = options.worth_seconds;
  return out;
}

double least_step_seconds(const Plan& plan, const ModelGraph& graph, const Machine& machine,
                          const OpSeconds& measured) {
  const CostModel cost(plan, graph, machine, measured);
  std::vector<double> capacities = cost.capacities();
  capacities[CostModel::disk_resource] = std::max(1.0, cost.disk_mixed_capacity());
  std::vector<double> seconds(capacities.size(), 0.0);
  std::map<LaneId, double> lanes;
  const Segment& body = plan.segment(SegmentKind::body);
  for (const Op& op : body.ops) {
    if (op.persists) continue;
    const Flow flow = cost.flow(body, op);
    double alone = 0;
    for (const auto& [resource, amount] : flow.demands) {
      alone = std::max(alone, amount / capacities[resource]);
      seconds[resource] += amount / capacities[resource];
    }
    if (is_ordered(op.lane.kind)) lanes[op.lane] += flow.delay + alone;
  }
  double least = *std::max_element(seconds.begin(), seconds.end());
  for (const auto& [lane, sum] : lanes) least = std::max(least, sum);
  return least;
}

}  // namespace tidepool
