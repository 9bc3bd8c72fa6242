// The planner: (model, batch, budgets, choices) -> Plan. A pure function.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"
#include "tidepool/policy.h"

namespace tidepool {

struct PlanOptions {
  Budgets budgets;
  u32 micro_batches = 1;  // per step, of all devices together
  u32 devices = 1;        // alike; budgets.device is of each
  bool clipping = true;   // updates wait for the global norm; in fp16 they do anyway
  HomePolicy home = HomePolicy::automatic;
  RecomputePolicy recompute = RecomputePolicy::automatic;
  Bytes chunk_bytes{0};  // of an fp32 chunk; 0: chosen from the host budget
  u32 sweeps = 0;        // 0: the fewest that fit
  u32 early_blocks = 0;  // first blocks whose state rests on the device: their updates precede any forward
  u32 lookahead = 0;     // ops; 0: as far as memory allows
  Bytes device_reserved{0};  // of the device budget: workspaces of libraries, a step's numbers
  Bytes host_reserved{0};    // of the host budget: data reading, checkpoint staging
  bool advise = true;        // where nothing fits: find the smallest change that does, which takes a while
};

// Whether updates follow the norm, in the next step's forward: to clip, and in fp16 because a gradient that
// has overflowed must change nothing, which shows in the norm.
inline bool updates_wait(const ModelGraph& graph, const PlanOptions& options) {
  return trains(graph) && (options.clipping || graph.precision == Precision::fp16);
}

// Of a graph that trains nothing, the plan has an evaluation segment and no other.
// Error: ErrorKind::does_not_fit, naming the tier, what is needed, and the smallest budget that fits
// (with the other tiers as they are), which Error::changes has as values; ErrorKind::usage for impossible
// choices.
Result<Plan> make_plan(const ModelGraph&, const PlanOptions&);

// The same plan before its proof, to compare with others. Never to be run, nor shown as one that can be.
Result<Plan> draft_plan(const ModelGraph&, const PlanOptions&);

// A plan with these choices, to compare with one that draft_plan made: found by the usual search alone, which
// may miss a plan that there is. None: it found none.
std::optional<Plan> draft_variation(const ModelGraph&, const PlanOptions&);

// How long a search may take, in ops and not in seconds: the same job gets the same answer on any machine.
struct SearchWork {
  u64 ops_max = 0;  // but the first attempt is made whatever it takes
  u64 ops = 0;      // of all attempts
  bool cut = false;

  // Whether an attempt at so many ops is to be made; if so, it is counted.
  bool takes(u64 more);
};

// Whether there is a plan, in a fraction of the time: where everything lies, without an op. Errors: as
// make_plan; one that is cut has found no plan.
Result<void> check_fits(const ModelGraph&, const PlanOptions&, SearchWork* = nullptr);

// The smallest budgets from what they are up to `most` that fit, as a config says them. None: not even `most`
// does, or the search was cut.
std::optional<Budgets> least_budgets(const ModelGraph&, const PlanOptions&, const Budgets& most,
                                     SearchWork* = nullptr);

}  // namespace tidepool
