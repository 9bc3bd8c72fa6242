// summarize() turns the plan into values for people, before the first step.
#pragma once

#include "fit/job.h"
#include "probe/step/predict.h"
#include "report/terminal.h"

namespace tidepool {

struct SummaryInput {
  const Job& job;
  const Plan& plan;
  const Prediction* prediction = nullptr;  // null: nothing was measured
  const Machine* machine = nullptr;        // machine that the plan is for; null: this one
};
PlanSummary summarize(const SummaryInput&);

// Bytes of all persistent kinds.
Bytes state_bytes(const Plan&);

// RETURNS: the devices with how they share a step: "2 nodes of layers over cpu:2".
std::string shared_by(const Plan&, std::string_view devices);

}  // namespace tidepool
