// The plan before the first step, as values for people.
#pragma once

#include "config/config.h"
#include "probe/step/predict.h"
#include "report/terminal.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

struct SummaryInput {
  const Config& config;
  const ModelGraph& graph;
  const Plan& plan;
  const Prediction* prediction = nullptr;  // null where nothing was measured
  const Machine* machine = nullptr;        // that is planned for; null: this one
};
PlanSummary summarize(const SummaryInput&);

// All persistent kinds.
Bytes state_bytes(const Plan&);

}  // namespace tidepool
