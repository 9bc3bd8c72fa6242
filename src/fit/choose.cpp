// Chooser changes one option of a plan at a time, as long as the predicted step becomes shorter.
#include "fit/choose.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "planner/verify/verify.h"

namespace tidepool {
namespace {

// A smaller gain is not worth a plan that is harder to explain, nor, for a large plan, the time to replay it.
constexpr double least_gain = 0.002, least_gain_of_large = 0.01;
constexpr u64 large_ops = 20'000;
constexpr u32 steps_replayed = 4, steps_replayed_of_large = 3;
constexpr u64 ops_worked_on_max = 1'500'000;  // ops planned, and again each time that they are replayed
constexpr u32 rounds_max = 4;
constexpr u32 early_blocks_max = 16;
constexpr u64 chunk_elements_max = 64 * mib;  // 256 MiB of fp32

u64 ops_of(const Plan& plan) {
  u64 ops = 0;
  for (const Segment& segment : plan.segments) ops += segment.ops.size();
  return ops;
}

constexpr double never = 1e30;

// Seconds of a step. `stopped`: a lower limit, because the replay was stopped when it could no longer win.
struct Seconds {
  double value = 0;
  bool stopped = false;
  double exposed_update = 0;  // part of `value` in which compute waits for the host's updates
};

struct Candidate {
  PlanOptions options;
  Plan plan;
  double seconds = 0, exposed_update_seconds = 0;
};

// Options that differ between candidates.
using Key = std::tuple<Bytes, u32, RecomputePolicy, HomePolicy, u32>;

Key key_of(const PlanOptions& o) { return {o.chunk_bytes, o.sweeps, o.recompute, o.home, o.early_blocks}; }

class Chooser {
 public:
  Chooser(const ModelGraph& graph, const PlanOptions& options, const Machine& machine,
          const ChooseOptions& how)
      : graph_(graph), given_(options), machine_(machine), how_(how) {}

  // Starts from several plans, because the best choices for one home are not the best for another.
  Result<Choice> choose() {
    if (how_.tried) how_.tried(candidates_, fastest_seconds_);
    TRY_ASSIGN(Plan fitting, draft_plan(graph_, given_));
    TRY(descend(drafted(given_, std::move(fitting))));
    Candidate fastest = std::move(best_);
    if (given_.home == HomePolicy::automatic)
      for (const HomePolicy home : {HomePolicy::disk, HomePolicy::host, HomePolicy::device}) {
        PlanOptions start = given_;
        start.home = home;
        start.advise = false;
        if (tired()) break;
        std::optional<Candidate> first = draft(start);
        if (!first) continue;
        TRY(descend(*std::move(first)));
        if (best_.seconds < fastest.seconds * (1 - gain_)) fastest = std::move(best_);
      }
    fastest.options.advise = given_.advise;
    TRY(verify_plan(fastest.plan, graph_));
    TRY_ASSIGN(Forecast replayed, forecast(fastest.plan, graph_, machine_, {.seconds = how_.seconds}));
    return Choice{.plan = std::move(fastest.plan),
                  .forecast = std::move(replayed),
                  .options = fastest.options,
                  .candidates = candidates_};
  }

 private:
  bool tired() const { return worked_on_ > ops_worked_on_max; }

  // Descends until no single change is faster. Leaves the result in best_.
  Result<void> descend(Candidate start) {
    best_ = std::move(start);
    TRY_ASSIGN(const Seconds first, replay(best_, never));
    best_.seconds = first.value, best_.exposed_update_seconds = first.exposed_update;
    for (u32 round = 0; round < rounds_max; ++round) {
      const double before = best_.seconds;
      TRY(vary_chunks());
      TRY(vary_recompute());
      TRY(vary_home());
      TRY(vary_sweeps());
      TRY(vary_early());
      if (best_.seconds > before * (1 - gain_)) break;
    }
    return {};
  }

  // A draft is not verified: only the chosen candidate is.
  std::optional<Candidate> draft(const PlanOptions& options) {
    if (how_.tried) how_.tried(candidates_, fastest_seconds_);
    std::optional<Plan> plan = draft_variation(graph_, options);
    if (!plan) return std::nullopt;
    return drafted(options, *std::move(plan));
  }

  Candidate drafted(const PlanOptions& options, Plan plan) {
    const u64 ops = ops_of(plan);
    worked_on_ += ops;
    if (ops > large_ops) gain_ = least_gain_of_large;
    ++candidates_;
    return {.options = options, .plan = std::move(plan)};
  }

  // Seconds of a step. If they exceed `worth`, only a lower limit: the candidate is not interesting.
  Result<Seconds> replay(const Candidate& c, double worth) {
    const double least = least_step_seconds(c.plan, graph_, machine_, how_.seconds);
    if (least >= worth) return Seconds{least, true};
    worked_on_ += ops_of(c.plan);
    const bool large = ops_of(c.plan) > large_ops;
    TRY_ASSIGN(const Forecast found, forecast(c.plan, graph_, machine_,
                                              {.seconds = how_.seconds,
                                               .steps = large ? steps_replayed_of_large : steps_replayed,
                                               .check_tags = false,
                                               .worth_seconds = worth}));
    if (fastest_seconds_ == 0 || found.step_seconds < fastest_seconds_) fastest_seconds_ = found.step_seconds;
    return Seconds{.value = found.step_seconds,
                   .stopped = found.step_seconds >= worth,
                   .exposed_update = found.exposed_seconds[static_cast<u32>(Cause::update)]};
  }

  // A candidate that is known is not planned again, unless its known seconds are below `worth`.
  bool is_known(const PlanOptions& options, double worth) const {
    const auto known = known_.find(key_of(options));
    return known != known_.end() && known->second.value >= worth;
  }

  // Takes the options if they fit and are faster.
  Result<void> attempt(PlanOptions options) {
    options.advise = false;
    const double worth = best_.seconds * (1 - gain_);
    if (tired() || is_known(options, worth)) return {};
    std::optional<Candidate> made = draft(options);
    if (!made) {
      known_[key_of(options)] = {never, true};
      return {};
    }
    if (made->plan == best_.plan) return {};
    TRY_ASSIGN(const Seconds seconds, replay(*made, worth));
    known_[key_of(options)] = seconds;
    if (seconds.stopped) return {};
    made->seconds = seconds.value, made->exposed_update_seconds = seconds.exposed_update;
    best_ = *std::move(made);
    return {};
  }

  // Tries chunk sizes from the current one downwards, then upwards. Times are not smooth in the size, so two
  // misses end a direction.
  Result<void> vary_chunks() {
    if (given_.chunk_bytes.value != 0) return {};
    const u64 start = best_.plan.chunk_elements;
    for (const bool smaller : {true, false}) {
      u32 misses = 0;
      for (u64 next = start; misses < 2;) {
        next = smaller ? next / 2 : next * 2;
        if (next < cut_alignment_elements || next > chunk_elements_max) break;
        PlanOptions options = best_.options;
        options.chunk_bytes = Bytes{next * 4};
        const double before = best_.seconds;
        TRY(attempt(options));
        misses = best_.seconds < before ? 0 : misses + 1;
      }
    }
    return {};
  }

  Result<void> vary_recompute() {
    if (given_.recompute != RecomputePolicy::automatic) return {};
    for (const RecomputePolicy policy :
         {RecomputePolicy::automatic, RecomputePolicy::keep, RecomputePolicy::recompute}) {
      PlanOptions options = best_.options;
      options.recompute = policy;
      TRY(attempt(options));
    }
    return {};
  }

  Result<void> vary_home() {
    if (given_.home != HomePolicy::automatic) return {};
    for (const HomePolicy home :
         {HomePolicy::automatic, HomePolicy::device, HomePolicy::host, HomePolicy::disk}) {
      PlanOptions options = best_.options;
      options.home = home;
      TRY(attempt(options));
    }
    return {};
  }

  // More sweeps hold fewer activations and bring weights up more often. Other choices decide what to do with
  // the room that this leaves, so they are made again.
  Result<void> vary_sweeps() {
    if (given_.sweeps != 0) return {};
    const u32 micro_batches = given_.micro_batches_per_replica();
    for (u32 sweeps = 1; sweeps <= micro_batches; ++sweeps) {
      if (micro_batches % sweeps != 0) continue;
      for (const RecomputePolicy recompute : {best_.options.recompute, given_.recompute})
        for (const HomePolicy home : {best_.options.home, given_.home}) {
          PlanOptions options = best_.options;
          options.sweeps = sweeps, options.recompute = recompute, options.home = home;
          TRY(attempt(options));
        }
    }
    return {};
  }

  bool device_could_relieve_disk() const {
    constexpr u64 budgets_worth_it = 4;
    u64 on_disk = 0;
    for (u32 id = 0; id < best_.plan.homes.size(); ++id) {
      const Chunk& chunk = best_.plan.chunks[id];
      if (best_.plan.homes[id].tier == Tier::disk && is_slot(chunk.kind))
        on_disk += best_.plan.homes[id].bytes.value;
    }
    return on_disk > 0 && on_disk <= budgets_worth_it * given_.budgets.device.value * given_.devices;
  }

  // With clipping all updates happen in the next forward, which waits for the updates of its first blocks.
  // State that rests on the device is updated there. It is worth its room as long as the wait is longer than
  // the time that the displaced content costs. It also keeps as much state off the disk, which is tried if
  // that is a good part of it.
  Result<void> vary_early() {
    if (given_.early_blocks != 0 || given_.home != HomePolicy::automatic) return {};
    for (u32 early = std::max(1u, 2 * best_.options.early_blocks), misses = 0;
         early <= early_blocks_max && misses < 2; early *= 2) {
      if (best_.exposed_update_seconds < gain_ * best_.seconds && !device_could_relieve_disk()) break;
      PlanOptions options = best_.options;
      options.early_blocks = early;
      const double before = best_.seconds;
      TRY(attempt(options));
      misses = best_.seconds < before ? 0 : misses + 1;
    }
    return {};
  }

  const ModelGraph& graph_;
  const PlanOptions& given_;
  const Machine& machine_;
  const ChooseOptions& how_;
  Candidate best_;
  std::map<Key, Seconds> known_;
  double fastest_seconds_ = 0;  // of all replayed
  double gain_ = least_gain;
  u64 worked_on_ = 0;
  u32 candidates_ = 0;
};

}  // namespace

Result<Choice> choose_plan(const ModelGraph& graph, const PlanOptions& options, const Machine& machine,
                           const ChooseOptions& how) {
  return Chooser(graph, options, machine, how).choose();
}

}  // namespace tidepool
