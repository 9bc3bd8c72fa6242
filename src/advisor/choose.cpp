#include "advisor/choose.h"

#include <optional>

namespace tidepool {
namespace {

// A choice that saves less is not worth a plan that is harder to explain.
constexpr double least_gain = 0.002;
constexpr u64 ops_replayed_max = 1'500'000;
constexpr u32 rounds_max = 3;

class Chooser {
 public:
  Chooser(const ModelGraph& graph, const PlanOptions& options, const Machine& machine,
          const std::vector<BlockSeconds>& blocks)
      : graph_(graph), given_(options), machine_(machine), blocks_(blocks) {}

  Result<Choice> choose() {
    TRY_ASSIGN(Plan plan, make_plan(graph_, given_));
    TRY_ASSIGN(Forecast first, replay(plan));
    best_ = {.plan = std::move(plan), .forecast = std::move(first), .options = given_, .candidates = 1};
    for (u32 round = 0; round < rounds_max; ++round) {
      const double before = best_.forecast.step_seconds;
      TRY(vary_chunks());
      TRY(vary_recompute());
      TRY(vary_home());
      TRY(vary_sweeps());
      if (best_.forecast.step_seconds > before * (1 - least_gain)) break;
    }
    return std::move(best_);
  }

 private:
  Result<Forecast> replay(const Plan& plan) {
    for (const Segment& segment : plan.segments) replayed_ += segment.ops.size();
    return forecast(plan, graph_, machine_, {.blocks = blocks_});
  }

  // Takes it where it fits and is faster.
  Result<void> attempt(PlanOptions options) {
    if (replayed_ > ops_replayed_max) return {};
    options.advise = false;
    auto plan = make_plan(graph_, options);
    if (!plan) {
      if (plan.error().kind == ErrorKind::does_not_fit) return {};
      return std::move(plan).error();
    }
    ++best_.candidates;
    if (*plan == best_.plan) return {};
    TRY_ASSIGN(Forecast found, replay(*plan));
    if (found.step_seconds > best_.forecast.step_seconds * (1 - least_gain)) return {};
    options.advise = given_.advise;
    best_.plan = std::move(*plan);
    best_.forecast = std::move(found);
    best_.options = options;
    return {};
  }

  // Downhill in each direction: half as large for as long as it helps, then twice.
  Result<void> vary_chunks() {
    if (given_.chunk_bytes.value != 0) return {};
    for (const bool smaller : {true, false})
      for (;;) {
        const u64 elements = best_.plan.chunk_elements;
        const u64 next = smaller ? elements / 2 : elements * 2;
        if (next < cut_alignment_elements || next > 64 * mib) break;
        PlanOptions options = best_.options;
        options.chunk_bytes = Bytes{next * 4};
        TRY(attempt(options));
        if (best_.plan.chunk_elements == elements) break;
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

  // More sweeps hold fewer activations and bring weights up more often.
  Result<void> vary_sweeps() {
    if (given_.sweeps != 0) return {};
    const u32 micro_batches = given_.micro_batches / given_.devices;
    for (u32 sweeps = best_.plan.sweeps + 1; sweeps <= micro_batches; ++sweeps) {
      if (micro_batches % sweeps != 0) continue;
      const u32 before = best_.plan.sweeps;
      PlanOptions options = best_.options;
      options.sweeps = sweeps;
      TRY(attempt(options));
      if (best_.plan.sweeps == before) break;
    }
    return {};
  }

  const ModelGraph& graph_;
  const PlanOptions& given_;
  const Machine& machine_;
  const std::vector<BlockSeconds>& blocks_;
  Choice best_;
  u64 replayed_ = 0;
};

}  // namespace

Result<Choice> choose_plan(const ModelGraph& graph, const PlanOptions& options, const Machine& machine,
                           const std::vector<BlockSeconds>& blocks) {
  return Chooser(graph, options, machine, blocks).choose();
}

}  // namespace tidepool
