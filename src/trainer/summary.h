// The plan before the first step, as values for people.
#pragma once

#include "config/config.h"
#include "report/terminal.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"
#include "trainer/predict.h"

namespace tidepool {

// `prediction`: null where nothing was measured.
PlanSummary summarize(const Config&, const ModelGraph&, const Plan&, const Prediction* prediction);

// All persistent kinds.
Bytes state_bytes(const Plan&);

}  // namespace tidepool
