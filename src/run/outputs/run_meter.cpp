#include "run/outputs/run_meter.h"

#include "base/median.h"
#include "base/process/limits.h"
#include "base/steady_seconds.h"

namespace tidepool {
namespace {

constexpr double seconds(Nanos nanos) { return static_cast<double>(nanos.value) * 1e-9; }

}  // namespace

RunMeter::RunMeter(const Plan& plan, const ExecutorCounters& counters, u64 steps_expected, u64 trace_events)
    : plan_(plan),
      counters_(counters),
      profile_(plan),
      phases_(plan, steps_expected),
      trace_(plan, trace_events) {
  for (std::vector<double>* each : {&step_seconds_, &grad_norms_, &learning_rates_})
    each->reserve(steps_expected);
}

void RunMeter::begin_training() {
  began_ = last_step_ = steady_seconds();
  moved_before_ = counters_.moved();
  by_data_before_ = counters_.moved_by_data();
  collected_before_ = counters_.moved_between_devices();
  passed_before_ = counters_.moved_over_network();
  runs_before_ = runs_;
  committed_runs_before_ = committed_runs_;
}

void RunMeter::end_training(bool abandoned) {
  train_seconds_ += steady_seconds() - began_;
  const auto moved = counters_.moved(), finished = planned(runs_before_, committed_runs_before_);
  const auto by_data = counters_.moved_by_data();
  for (u32 l = 0; l < link_count; ++l) {
    moved_[l] += abandoned ? finished[l] : moved[l] - moved_before_[l];
    by_data_[l] += abandoned ? 0 : by_data[l] - by_data_before_[l];
  }
  collected_ += abandoned ? planned_between_devices(runs_before_)
                          : counters_.moved_between_devices() - collected_before_;
  const NetBytes passed = counters_.moved_over_network();
  passed_.sent += passed.sent - passed_before_.sent;
  passed_.received += passed.received - passed_before_.received;
}

// Bytes of the segments that were finished since.
std::array<Bytes, link_count> RunMeter::planned(const Runs& since, const Runs& since_committed) const {
  std::array<Bytes, link_count> sum{};
  for (u32 s = 0; s < segment_count; ++s) {
    const SegmentKind kind = static_cast<SegmentKind>(s);
    if (kind == SegmentKind::evaluation) continue;
    const auto bytes = link_bytes(plan_, kind), persisted = persisted_bytes(plan_, kind);
    for (u32 l = 0; l < link_count; ++l)
      sum[l] += bytes[l] * (runs_[s] - since[s]) + persisted[l] * (committed_runs_[s] - since_committed[s]);
  }
  return sum;
}

Bytes RunMeter::planned_between_devices(const Runs& since) const {
  Bytes sum{};
  for (u32 s = 0; s < segment_count; ++s)
    if (static_cast<SegmentKind>(s) != SegmentKind::evaluation)
      sum += comm_bytes(plan_, static_cast<SegmentKind>(s)) * (runs_[s] - since[s]);
  return sum;
}

double RunMeter::step_done() {
  const double at = steady_seconds(), took = at - last_step_;
  last_step_ = at;
  step_seconds_.push_back(took);
  return took;
}

void RunMeter::keep(u64 steps) {
  for (std::vector<double>* each : {&step_seconds_, &grad_norms_, &learning_rates_})
    if (each->size() > steps) each->resize(steps);
}

void RunMeter::record(double grad_norm, double learning_rate) {
  grad_norms_.push_back(grad_norm);
  learning_rates_.push_back(learning_rate);
}

void RunMeter::fill_network(std::array<LinkUse, 2>& network) const {
  const auto set = [&](LinkUse& use, Bytes NetBytes::*way) {
    use.measured = passed_.*way;
    use.lower_bound = use.lower_bound * steps();
    use.planned_steady = net_bytes(plan_, SegmentKind::body).*way;
    for (u32 s = 0; s < segment_count; ++s)
      if (static_cast<SegmentKind>(s) != SegmentKind::evaluation)
        use.planned += net_bytes(plan_, static_cast<SegmentKind>(s)).*way * runs_[s];
  };
  set(network[0], &NetBytes::sent);
  set(network[1], &NetBytes::received);
}

void RunMeter::fill(RunReport& report) const {
  report.steps = steps();
  report.train_seconds = train_seconds_;
  report.step_seconds = median(step_seconds_);
  report.each_step_seconds = step_seconds_;
  report.each_grad_norm = grad_norms_;
  report.each_learning_rate = learning_rates_;
  const auto all = planned({}, {});
  for (u32 l = 0; l < link_count; ++l) {
    report.links[l].measured = moved_[l];
    report.links[l].lower_bound = report.links[l].lower_bound * steps();
    report.links[l].planned = Bytes{all[l].value + static_cast<u64>(by_data_[l])};
  }
  const auto steady = link_bytes(plan_, SegmentKind::body);
  for (u32 l = 0; l < link_count; ++l) report.links[l].planned_steady = steady[l];
  if (plan_.replicas() > 1)
    report.comm = CommUse{.planned = planned_between_devices({}),
                          .measured = collected_,
                          .planned_steady = comm_bytes(plan_, SegmentKind::body)};
  if (report.network) fill_network(*report.network);
  for (u32 t = 0; t < tier_count; ++t)
    report.tiers[t].measured_peak = counters_.high_water(static_cast<Tier>(t));
  report.io_retries = counters_.io_retries();
  const PhaseProfile total = profile_.total();
  for (u32 c = 0; c < cause_count; ++c) {
    const auto cause = static_cast<Cause>(c);
    if (cause == Cause::net && plan_.nodes == 1) continue;
    if (cause == Cause::commit && plan_.versions == 1) continue;
    report.exposed.push_back({std::string(name(cause)), seconds(total.exposed[c])});
  }
  report.rss_peak = process_peak();
}

}  // namespace tidepool
