// Planner options of a config, for tests that have no job at hand.
#pragma once

#include <optional>
#include <utility>

#include "fit/job.h"
#include "fit/plan_run.h"

namespace tidepool {

inline PlanOptions plan_options(const Config& config) { return make_job(config).value().options; }
inline PlanOptions plan_options(const Config& config, Bytes disk) {
  PlanOptions options = plan_options(config);
  options.budgets.disk = disk;
  return options;
}
inline Result<RunQuestion> question_of(const Config& config, PlanFor who,
                                       std::optional<Machine> read = std::nullopt) {
  return question_of(make_job(config).value(), who, std::move(read));
}

}  // namespace tidepool
