// RoutingMeter adds up how a training's tokens were routed to experts.
#pragma once

#include <optional>

#include "executor/shared/step_results.h"
#include "report/metrics.h"
#include "report/run_report.h"
#include "tidepool/model_graph.h"

namespace tidepool {

class RoutingMeter {
 public:
  RoutingMeter(const ModelGraph&, u64 steps_expected);

  // Call once per step, in order. Fills in the step's routing; a no-op for a model without experts. `tokens`:
  // of the step, without padding.
  void add(const RoutingResult&, u64 tokens, Metrics&);
  // Tokens per expert up to now, at most once for each doubling of the steps: a long run logs them 20 times,
  // which takes less space than a thousand other lines. Call when a line is about to be logged.
  std::optional<ExpertTokens> due();
  void fill(RunReport&) const;

 private:
  ExpertUse use_;
  std::vector<std::vector<i64>> last_;  // of the last steps, in turns
  u64 next_due_ = 1;
};

}  // namespace tidepool
