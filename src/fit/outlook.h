// Outlook puts a forecast into figures for people: speed, efficiency, days, wear.
#pragma once

#include "fit/plan_run.h"
#include "fit/tokens_to_bind.h"

namespace tidepool {

struct Outlook {
  u64 tokens_per_step = 0;
  double tokens_per_second = 0;
  // Per device, in model flops: flops_per_token of the graph (6 N + 12 L H Q T), recompute not counted.
  double flops_per_second = 0;
  double flops_utilization = 0;  // MFU: share of the machine's best rate of matrix products in this precision
  double least_step_seconds = 0;  // no plan is faster: the busiest resource with its least work
  std::string least_binds;        // the name of that resource
  TokensToBind compute_busiest;   // from how many tokens per step on
  double days = 0;                // for the token budget; 0: no budget given
  Bytes disk_written_per_step{};
  double disk_bytes_per_day = 0;
  // Years until the endurance in the machine file is used up; 0: endurance not known, or nothing written.
  double drive_life_years = 0;
  Bytes checkpoint{};       // size of one checkpoint on disk
  double save_seconds = 0;  // per checkpoint: read, copied and hashed, written, one after the other
};

// `token_budget`: tokens to train on; 0: not given. REQUIRES: the run has a machine and a forecast.
Outlook outlook(const ModelGraph&, const RunPlan&, u64 token_budget = 0);

}  // namespace tidepool
