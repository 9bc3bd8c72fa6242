// Planner options of a config, for tests that have no graph at hand.
#pragma once

#include <optional>
#include <utility>

#include "fit/plan_inputs.h"
#include "fit/plan_run.h"

namespace tidepool {

inline PlanOptions plan_options(const Config& config, Bytes disk) {
  return plan_options(config, make_graph(config).value(), disk);
}
inline PlanOptions plan_options(const Config& config) {
  return plan_options(config, config.memory.budgets.disk);
}
inline Result<RunQuestion> question_of(const Config& config, PlanFor who,
                                       std::optional<Machine> read = std::nullopt) {
  return question_of(config, make_graph(config).value(), who, std::move(read));
}

}  // namespace tidepool
