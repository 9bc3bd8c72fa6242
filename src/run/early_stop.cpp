#include "run/early_stop.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/text/units.h"
#include "objectives/objective.h"

namespace tidepool {
namespace {

bool greater_is_better(AutoBool said, std::string_view metric) {
  if (said != AutoBool::automatic) return said == AutoBool::yes;
  return !metric.ends_with("loss") && !metric.ends_with("perplexity") && !metric.ends_with("kl") &&
         !metric.starts_with("eval_clip_ratio");
}

}  // namespace

void set_ranking(const TrainConfig& train, EvalLoss& e) {
  const std::string metric = evaluation_metric_name(train.metric_for_best_model);
  e.greater_is_better = greater_is_better(train.greater_is_better, metric);
  e.ranked_by = metric == "eval_loss" && !e.greater_is_better ? "" : metric;
}

u64 evaluations_without_gain(std::span<const EvalLoss> evaluations, double threshold) {
  double best = std::numeric_limits<double>::infinity();
  u64 count = 0;
  bool first = true;
  for (const EvalLoss& e : comparable_evaluations(evaluations)) {
    const double rank = e.rank();
    const bool better = first || (rank < best && best - rank > threshold);
    count = better ? 0 : count + 1;
    if (rank < best) best = rank;  // a gain below the threshold still becomes the best
    first = false;
  }
  return count;
}

std::string why_stop_early(std::span<const EvalLoss> evaluations, const TrainConfig& train) {
  if (train.early_stopping_patience == 0 || evaluations.empty()) return "";
  EvalLoss wanted;
  set_ranking(train, wanted);
  if (!evaluations.back().same_ranking(wanted)) return "";
  const u64 count = evaluations_without_gain(evaluations, train.early_stopping_threshold);
  if (count < train.early_stopping_patience) return "";
  const EvalLoss* best = best_evaluation(evaluations);
  return fmt::format(
      "{} has not improved{} in {} evaluation{}; the best was {} at step {}",
      best->ranked_by.empty() ? "eval_loss" : best->ranked_by,
      train.early_stopping_threshold > 0 ? fmt::format(" by more than {:g}", train.early_stopping_threshold)
                                         : "",
      count, count == 1 ? "" : "s",
      best->ranked_by.empty() ? loss_text(best->loss) : significant_text(best->value), best->step);
}

std::string why_best_begins_anew(std::span<const EvalLoss> evaluations, const TrainConfig& train) {
  if (evaluations.size() < 2 || comparable_evaluations(evaluations).size() > 1) return "";
  const EvalLoss* best = best_evaluation(evaluations.first(evaluations.size() - 1));
  const std::string counts =
      train.early_stopping_patience > 0 ? ", and early stopping starts to count again" : "";
  if (const EvalLoss& last = evaluations.back(); !last.same_ranking(*best))
    return fmt::format("evaluations were compared by {} before: this one is the first for a new best{}",
                       best->ranked_by.empty() ? "eval_loss" : best->ranked_by, counts);
  return fmt::format(
      "{} {} at step {}, the best so far, was not measured on these {} tokens and cannot be compared: "
      "this evaluation is the first for a new best{}",
      best->ranked_by.empty() ? "eval_loss" : best->ranked_by,
      best->ranked_by.empty() ? loss_text(best->loss) : significant_text(best->value), best->step,
      evaluations.back().tokens, counts);
}

}  // namespace tidepool
