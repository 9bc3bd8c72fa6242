// make_plan() is the planner: (model, batch, budgets, choices) -> Plan. A pure function.
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
  u32 micro_batches = 1;  // per step, all devices of all nodes together
  u32 devices = 1;        // of each node, all alike; budgets.device is per device
  Parallel parallel = Parallel::data;
  u32 nodes = 1;         // budgets are those of this node
  u32 node = 0;          // whose plan is made
  bool clipping = true;  // updates wait for the global norm; in fp16 they always wait
  HomePolicy home = HomePolicy::automatic;
  RecomputePolicy recompute = RecomputePolicy::automatic;
  Bytes chunk_bytes{0};  // size of an fp32 chunk; 0: chosen from the host budget
  u32 sweeps = 0;        // 0: the fewest that fit
  u32 early_blocks = 0;  // first blocks whose state rests on the device: their updates precede any forward
  u32 lookahead = 0;     // ops; 0: as far as memory allows
  Bytes device_reserved{0};  // part of the device budget: workspaces of libraries, a step's numbers
  Bytes host_reserved{0};    // part of the host budget: data reading, checkpoint staging
  // Slots on disk for each trained chunk: with 2, a killed run resumes from the last committed step; with 3,
  // steps are committed while a checkpoint is written, too. 0: 3 if trained state rests on disk (or the plan
  // speculates) and there is room, else 2, else 1. With several nodes always 1.
  u32 versions = 1;
  // Updates do not wait, and assume that the norm changes nothing; needs 2 versions or more.
  bool speculates = false;
  LookupPolicy lookup = LookupPolicy::automatic;
  bool advise = true;  // if nothing fits, find the smallest change that does, which takes a while

  u32 replicas() const { return replicas_of(parallel, devices); }
  u32 micro_batches_per_replica() const { return micro_batches / (replicas() * nodes); }
};

// True if the norm may change updates: to clip, and in fp16 because a gradient that has overflowed must
// change nothing, and the norm shows the overflow.
inline bool norm_counts(const ModelGraph& graph, const PlanOptions& options) {
  return trains(graph) && (options.clipping || graph.precision == Precision::fp16);
}
// True if updates follow the norm, in the next step's forward.
inline bool updates_wait(const ModelGraph& graph, const PlanOptions& options) {
  return norm_counts(graph, options) && !options.speculates;
}

// True if rows of the model's table travel, and not the table.
bool looks_up(const ModelGraph&, const PlanOptions&);

// If the graph trains nothing, the plan has only an evaluation segment.
// Errors: ErrorKind::does_not_fit, naming the tier, its need, and the smallest budget that fits (with the
// other tiers unchanged); Error::changes has the budgets as values. ErrorKind::usage for impossible choices.
Result<Plan> make_plan(const ModelGraph&, const PlanOptions&);

// The same plan before verification, for comparisons. It must neither run nor be shown as a plan that can
// run.
Result<Plan> draft_plan(const ModelGraph&, const PlanOptions&);

// A plan with these choices, to compare with a plan of draft_plan(). It uses the usual search only, which may
// miss an existing plan. None: it found none.
std::optional<Plan> draft_variation(const ModelGraph&, const PlanOptions&);

// SearchWork limits a search in ops, not in seconds: the same job gets the same answer on any machine.
struct SearchWork {
  u64 ops_max = 0;  // the first attempt is made even if it takes more
  u64 ops = 0;      // ops of all attempts
  bool cut = false;

  // True if an attempt of that many ops may be made; then it is counted.
  bool takes(u64 more);
};

// Checks whether there is a plan, in a fraction of the time: places of all chunks, without ops.
// Errors: as make_plan(); if `work` ends the search, no plan was found.
Result<void> check_fits(const ModelGraph&, const PlanOptions&, SearchWork* = nullptr);

// The smallest budgets, from the options' up to `most`, that fit, rounded as a config writes them. None: not
// even `most` fits, or `work` ended the search.
std::optional<Budgets> least_budgets(const ModelGraph&, const PlanOptions&, const Budgets& most,
                                     SearchWork* = nullptr);

}  // namespace tidepool
