#include "run/commits/commit_pace.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fit/forecast.h"

namespace tidepool {
namespace {

constexpr double slower_at_most = 0.02;
constexpr u64 steps_if_unknown = 16;
// Fewer steps say little. One commit may happen to be slow, so the pace changes by a factor each time.
constexpr u64 steps_measured_least = 3, factor_at_once = 4;
// A quarter is noise, also of wanted steps that are no whole number: otherwise one step and two would take
// turns.
constexpr double noise = 1.25;

double seconds(Nanos time) { return static_cast<double>(time.value) * 1e-9; }

double steps_for_cost(double cost, double step) { return cost / step / slower_at_most; }

u64 whole(double steps) { return static_cast<u64>(std::max(1.0, std::ceil(steps))); }

// With N steps between commits of c steps each, and a replay in a part p of the steps, which repeats N / 2 on
// average, a step takes c / N + p N / 2 longer: least at the square root of 2 c / p.
double steps_for_replays(double cost_in_steps, const CommitPace::Totals& so_far) {
  if (so_far.replays == 0) return std::numeric_limits<double>::infinity();
  const double part = static_cast<double>(so_far.replays) / static_cast<double>(so_far.steps);
  return std::round(std::sqrt(2 * cost_in_steps / part));
}

// A forecast knows what it costs to write content that rests in memory.
u64 forecast_steps(const Plan& plan, const ModelGraph& graph, const Prediction& prediction) {
  const Bytes resting = persisted_bytes(plan, SegmentKind::body)[static_cast<u32>(LinkKind::disk_write)];
  if (resting.value < plan.second_slot.value / 20) return 1;  // nearly all is written in each step anyway
  if (prediction.seconds.empty()) return steps_if_unknown;
  const auto step_seconds = [&](bool persists) {
    const Result<Forecast> step =
        forecast(plan, graph, prediction.machine,
                 {.seconds = prediction.seconds, .persists = persists, .check_tags = false});
    return step ? step->step_seconds : 0;
  };
  const double without = step_seconds(false), with = step_seconds(true);
  return without > 0 ? whole(steps_for_cost(with - without, without)) : steps_if_unknown;
}

}  // namespace

CommitPace commit_pace(const Session& session, const Prediction& prediction) {
  if (session.plan().versions < 2) return {};
  const u64 asked = session.job().config.output.persist_steps;
  if (asked > 0) return {asked, false};
  return {forecast_steps(session.plan(), session.graph(), prediction), true};
}

bool CommitPace::follow(const Totals& now) {
  const u64 steps = now.steps - before_.steps, commits = now.commits - before_.commits;
  if (!follows_ || commits == 0 || steps < steps_measured_least) return false;
  const double waited = seconds(now.waited - before_.waited), wall = seconds(now.wall - before_.wall),
               committing = seconds(now.committing - before_.committing);
  before_ = now;
  if (!(wall > waited)) return false;
  const double cost = std::max(waited, committing) / static_cast<double>(commits);
  cost_ = cost_ > 0 ? (cost_ + cost) / 2 : cost;
  const double step = (wall - waited) / static_cast<double>(steps);
  const double wanted = std::min(steps_for_cost(cost_, step), steps_for_replays(cost_ / step, now));
  const double from = static_cast<double>(steps_);
  if (wanted <= noise * from && whole(noise * wanted) >= steps_) return false;
  const u64 next =
      std::clamp(whole(wanted), std::max(u64{1}, steps_ / factor_at_once), steps_ * factor_at_once);
  if (next == steps_) return false;
  steps_ = next;
  return true;
}

}  // namespace tidepool
