#include "report/metrics.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/text/units.h"

namespace tidepool {
namespace {

constexpr double any = std::numeric_limits<double>::infinity();

std::string short_text(double v) { return fmt::format("{:.3g}", v); }
std::string plain_text(double v) { return fmt::format("{:g}", v); }

}  // namespace

const MetricInfo& info(Metric metric) {
  using enum LogEvent;
  static constexpr std::array<MetricInfo, metric_count> table = {{
      {"epoch", "train/epoch", step, 1e12, 4, "epoch", "", significant_text},
      {"loss", "train/loss", step, any, 1, "loss", "", loss_text},
      {"grad_norm", "train/grad_norm", step, 1e39, 3, "grad_norm", "", norm_text},
      {"learning_rate", "train/learning_rate", step, 1e9, 2, "lr", "", short_text},
      {"train_tokens_per_second", "train/train_tokens_per_second", step, 1e18, 5, "", "tok/s", count_text},
      {"step_seconds", "train/step_seconds", step, 1e11},
      {"loss_scale", "train/loss_scale", step, any, 6, "loss_scale", "", plain_text},
      {"rewards/chosen", "train/rewards/chosen", step},
      {"rewards/rejected", "train/rewards/rejected", step},
      {"rewards/accuracies", "train/rewards/accuracies", step, 1},
      {"rewards/margins", "train/rewards/margins", step},
      {"logps/chosen", "train/logps/chosen", step},
      {"logps/rejected", "train/logps/rejected", step},
      {"nll_loss", "train/nll_loss", step},
      {"log_odds_ratio", "train/log_odds_ratio", step},
      {"log_odds_chosen", "train/log_odds_chosen", step},
      {"accuracy", "train/accuracy", step, 1},
      {"margin", "train/margin", step},
      {"mean_reward", "train/mean_reward", step},
      {"kl", "train/kl", step},
      {"clip_ratio/low_mean", "train/clip_ratio/low_mean", step, 1},
      {"clip_ratio/high_mean", "train/clip_ratio/high_mean", step, 1},
      {"clip_ratio/region_mean", "train/clip_ratio/region_mean", step, 1},
      {"completions/mean_length", "train/completions/mean_length", step},
      {"mean_token_accuracy", "train/mean_token_accuracy", step, 1},
      {"entropy", "train/entropy", step},
      {"logits/chosen", "train/logits/chosen", step},
      {"logits/rejected", "train/logits/rejected", step},
      {"router_balance", "train/router_balance", step},
      {"router_z", "train/router_z", step},
      {"router_entropy", "train/router_entropy", step},
      {"expert_imbalance", "train/expert_imbalance", step},
      {"expert_imbalance_most", "train/expert_imbalance_most", step},
      {"eval_loss", "eval/loss", evaluation},
      {"perplexity", "eval/perplexity", evaluation},
      {"eval_accuracy", "eval/accuracy", evaluation, 1},
      {"eval_rewards/chosen", "eval/rewards/chosen", evaluation},
      {"eval_rewards/rejected", "eval/rewards/rejected", evaluation},
      {"eval_rewards/accuracies", "eval/rewards/accuracies", evaluation, 1},
      {"eval_rewards/margins", "eval/rewards/margins", evaluation},
      {"eval_logps/chosen", "eval/logps/chosen", evaluation},
      {"eval_logps/rejected", "eval/logps/rejected", evaluation},
      {"eval_nll_loss", "eval/nll_loss", evaluation},
      {"eval_log_odds_ratio", "eval/log_odds_ratio", evaluation},
      {"eval_log_odds_chosen", "eval/log_odds_chosen", evaluation},
      {"eval_margin", "eval/margin", evaluation},
      {"eval_mean_reward", "eval/mean_reward", evaluation},
      {"eval_kl", "eval/kl", evaluation},
      {"eval_clip_ratio/low_mean", "eval/clip_ratio/low_mean", evaluation, 1},
      {"eval_clip_ratio/high_mean", "eval/clip_ratio/high_mean", evaluation, 1},
      {"eval_clip_ratio/region_mean", "eval/clip_ratio/region_mean", evaluation, 1},
      {"eval_completions/mean_length", "eval/completions/mean_length", evaluation},
      {"eval_mean_token_accuracy", "eval/mean_token_accuracy", evaluation, 1},
      {"eval_entropy", "eval/entropy", evaluation},
      {"eval_logits/chosen", "eval/logits/chosen", evaluation},
      {"eval_logits/rejected", "eval/logits/rejected", evaluation},
      {"eval_runtime", "eval/runtime", evaluation},
      {"train_runtime", "train/train_runtime", run},
      {"train_loss", "train/train_loss", run},
  }};
  return table[static_cast<u32>(metric)];
}

Metric metric_named(std::string_view name) {
  u32 i = 0;
  while (i < metric_count && info(static_cast<Metric>(i)).name != name) ++i;
  CHECK(i < metric_count, name);
  return static_cast<Metric>(i);
}

}  // namespace tidepool
