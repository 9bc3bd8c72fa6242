// Values for people: the plan before the first step, and the facts a report starts from.
#pragma once

#include "config/config.h"
#include "report/run_report.h"
#include "report/terminal.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"
#include "trainer/predict.h"

namespace tidepool {

// `prediction`: null where nothing was measured.
PlanSummary summarize(const Config&, const ModelGraph&, const Plan&, const Prediction* prediction);

// Model, precision, parameters, budgets and lower bounds; nothing measured.
RunReport begin_report(const Config&, const ModelGraph&, const Plan&);

// All persistent kinds.
Bytes state_bytes(const Plan&);

}  // namespace tidepool
