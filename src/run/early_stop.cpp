#include "run/early_stop.h"

#include <fmt/format.h>

#include <limits>

#include "base/text/units.h"

namespace tidepool {

u64 evaluations_without_gain(std::span<const EvalLoss> evaluations, double threshold) {
  double best = std::numeric_limits<double>::infinity();
  u64 count = 0;
  bool first = true;
  for (const EvalLoss& e : comparable_evaluations(evaluations)) {
    const bool better = first || (e.loss < best && best - e.loss > threshold);
    count = better ? 0 : count + 1;
    if (e.loss < best) best = e.loss;  // a gain below the threshold still becomes the best
    first = false;
  }
  return count;
}

std::string why_stop_early(std::span<const EvalLoss> evaluations, const TrainConfig& train) {
  if (train.early_stopping_patience == 0) return "";
  const u64 count = evaluations_without_gain(evaluations, train.early_stopping_threshold);
  if (count < train.early_stopping_patience) return "";
  const EvalLoss* best = best_evaluation(evaluations);
  return fmt::format("eval_loss has not improved{} in {} evaluation{}; the best was {} at step {}",
                     train.early_stopping_threshold > 0
                         ? fmt::format(" by more than {:g}", train.early_stopping_threshold)
                         : "",
                     count, count == 1 ? "" : "s", loss_text(best->loss), best->step);
}

std::string why_best_begins_anew(std::span<const EvalLoss> evaluations, const TrainConfig& train) {
  if (evaluations.size() < 2 || comparable_evaluations(evaluations).size() > 1) return "";
  const EvalLoss* best = best_evaluation(evaluations.first(evaluations.size() - 1));
  return fmt::format(
      "eval_loss {} at step {}, the best so far, was not measured on these {} tokens and cannot be compared: "
      "this evaluation is the first for a new best{}",
      loss_text(best->loss), best->step, evaluations.back().tokens,
      train.early_stopping_patience > 0 ? ", and early stopping starts to count again" : "");
}

}  // namespace tidepool
