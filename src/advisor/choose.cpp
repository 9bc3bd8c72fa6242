#include "advisor/choose.h"

#include <optional>

namespace tidepool {
namespace {

// A choice that saves less is not worth a plan that is harder to explain.
constexpr double least_gain = 0.002;
constexpr u64 ops_replayed_max = 600'000;
constexpr u32 rounds_max = 4;
constexpr u64 chunk_elements_max = 64 * mib;  // 256 MiB of fp32

class Chooser {
 public:
  Chooser(const ModelGraph& graph, const PlanOptions& options, const Machine& machine,
          const ChooseOptions& how)
      : graph_(graph), given_(options), machine_(machine), how_(how) {}

  // From several starts, because what is best for one home is not for another.
  Result<Choice> choose() {
    TRY(descend(given_));
    Choice fastest = best_;
    if (given_.home == HomePolicy::automatic)
      for (const HomePolicy home : {HomePolicy::disk, HomePolicy::host, HomePolicy::device}) {
        PlanOptions start = given_;
        start.home = home;
        start.advise = false;
        const Result<void> found = descend(start);
        if (!found && found.error().kind != ErrorKind::does_not_fit) return found.error();
        if (found && best_.forecast.step_seconds < fastest.forecast.step_seconds * (1 - least_gain))
          fastest = best_;
      }
    fastest.candidates = candidates_;
    fastest.options.advise = given_.advise;
    return fastest;
  }

 private:
  // To where no single change is faster. Leaves it in best_.
  Result<void> descend(const PlanOptions& start) {
    if (replayed_ > ops_replayed_max) return {};
    tell();
    TRY_ASSIGN(Plan plan, make_plan(graph_, start));
    ++candidates_;
    TRY_ASSIGN(Forecast first, replay(plan));
    best_ = {.plan = std::move(plan), .forecast = std::move(first), .options = start};
    for (u32 round = 0; round < rounds_max; ++round) {
      const double before = best_.forecast.step_seconds;
      TRY(vary_chunks());
      TRY(vary_recompute());
      TRY(vary_home());
      TRY(vary_sweeps());
      if (best_.forecast.step_seconds > before * (1 - least_gain)) break;
    }
    return {};
  }

  void tell() const {
    if (how_.tried) how_.tried(candidates_, fastest_seconds_);
  }

  Result<Forecast> replay(const Plan& plan) {
    for (const Segment& segment : plan.segments) replayed_ += segment.ops.size();
    TRY_ASSIGN(Forecast found, forecast(plan, graph_, machine_, {.blocks = how_.blocks}));
    if (fastest_seconds_ == 0 || found.step_seconds < fastest_seconds_) fastest_seconds_ = found.step_seconds;
    return found;
  }

  // Takes it where it fits and is faster.
  Result<void> attempt(PlanOptions options) {
    if (replayed_ > ops_replayed_max) return {};
    options.advise = false;
    tell();
    auto plan = make_plan(graph_, options);
    if (!plan) {
      if (plan.error().kind == ErrorKind::does_not_fit) return {};
      return std::move(plan).error();
    }
    ++candidates_;
    if (*plan == best_.plan) return {};
    TRY_ASSIGN(Forecast found, replay(*plan));
    if (found.step_seconds > best_.forecast.step_seconds * (1 - least_gain)) return {};
    best_.plan = std::move(*plan);
    best_.forecast = std::move(found);
    best_.options = options;
    return {};
  }

  // From the size at hand downwards, then upwards: times are not smooth in it, so two misses end a direction.
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
        const double before = best_.forecast.step_seconds;
        TRY(attempt(options));
        misses = best_.forecast.step_seconds < before ? 0 : misses + 1;
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

  // More sweeps hold fewer activations and bring weights up more often; what they leave room for shows
  // in other choices, so those are made again.
  Result<void> vary_sweeps() {
    if (given_.sweeps != 0) return {};
    const u32 micro_batches = given_.micro_batches / given_.devices;
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

  const ModelGraph& graph_;
  const PlanOptions& given_;
  const Machine& machine_;
  const ChooseOptions& how_;
  Choice best_;
  double fastest_seconds_ = 0;  // of all replayed
  u64 replayed_ = 0;
  u32 candidates_ = 0;
};

}  // namespace

Result<Choice> choose_plan(const ModelGraph& graph, const PlanOptions& options, const Machine& machine,
                           const ChooseOptions& how) {
  return Chooser(graph, options, machine, how).choose();
}

}  // namespace tidepool
