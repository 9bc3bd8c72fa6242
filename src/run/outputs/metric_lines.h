// Lines of a run's logs, from what a step and an evaluation gave.
#pragma once

#include "executor/shared/step_source.h"
#include "kernels/gradient/step_result.h"
#include "objectives/objective.h"
#include "report/metrics.h"

namespace tidepool {

struct StepFacts {
  u64 step = 0;
  double epoch = 0;
  double learning_rate = 0;
  u64 tokens = 0;
  double seconds = 0;
  bool is_fp16 = false;
  ObjectiveType objective{};
};
MetricLine step_line(const StepFacts&, const StepResult&);

struct Evaluated {
  u64 step = 0;
  double epoch = 0;
  ObjectiveType objective{};
  EvalResult result;
  double seconds = 0;

  double figure() const {
    return tidepool::objective(objective).figure.of(result.sums, static_cast<double>(result.targets));
  }
};
MetricLine evaluation_line(const Evaluated&);
std::string evaluation_text(const Evaluated&);  // for people
// The last line of a run. `loss`: the mean over all steps.
MetricLine run_line(u64 step, double seconds, double tokens_per_second, double loss);

}  // namespace tidepool
