// The table of the numbers that a run tells while it trains: logs, the step line, the page and the reader of
// logs take names, units and formats from it.
#pragma once

#include <array>
#include <bitset>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"
#include "report/expert_use.h"

namespace tidepool {

enum class Metric : u8 {
  epoch,
  loss,
  grad_norm,
  learning_rate,
  train_tokens_per_second,
  step_seconds,
  loss_scale,  // fp16 only: scale of this step
  // Objectives of pairs and answers only.
  rewards_chosen,
  rewards_rejected,
  rewards_accuracies,
  rewards_margins,
  logps_chosen,
  logps_rejected,
  nll_loss,
  log_odds_ratio,
  log_odds_chosen,
  accuracy,
  margin,
  mean_reward,
  kl,
  clip_ratio_low_mean,
  clip_ratio_high_mean,
  clip_ratio_region_mean,
  completions_mean_length,
  mean_token_accuracy,
  entropy,
  logits_chosen,
  logits_rejected,
  // Models with experts only.
  router_balance,
  router_z,
  router_entropy,
  expert_imbalance,
  expert_imbalance_most,
  eval_loss,
  perplexity,
  eval_accuracy,
  eval_rewards_chosen,
  eval_rewards_rejected,
  eval_rewards_accuracies,
  eval_rewards_margins,
  eval_logps_chosen,
  eval_logps_rejected,
  eval_nll_loss,
  eval_log_odds_ratio,
  eval_log_odds_chosen,
  eval_margin,
  eval_mean_reward,
  eval_kl,
  eval_clip_ratio_low_mean,
  eval_clip_ratio_high_mean,
  eval_clip_ratio_region_mean,
  eval_completions_mean_length,
  eval_mean_token_accuracy,
  eval_entropy,
  eval_logits_chosen,
  eval_logits_rejected,
  eval_runtime,
  train_runtime,
  train_loss,  // mean over all steps
};
inline constexpr u32 metric_count = 59;

// The subject of a line of a log.
enum class LogEvent : u8 { step, evaluation, run };

struct MetricInfo {
  std::string_view name;                                  // in logs; Hugging Face's where it has one
  std::string_view tag;                                   // in TensorBoard's events
  LogEvent first{};                                       // the first kind of line that has it
  double most = std::numeric_limits<double>::infinity();  // limit of plausible values
  // In the step line: its place, from 1 on (0: not there), the word before it and the unit behind it.
  u32 place = 0;
  std::string_view word = {}, unit = {};
  std::string (*text)(double) = nullptr;
};
const MetricInfo& info(Metric);
inline std::string_view name(Metric metric) { return info(metric).name; }
Metric metric_named(std::string_view name);  // REQUIRES: there is one

// Metrics are the numbers of one line. Those that a run does not have are absent.
class Metrics {
 public:
  bool has(Metric metric) const { return present_[static_cast<u32>(metric)]; }
  // NaN if it is absent.
  double operator[](Metric metric) const {
    return has(metric) ? values_[static_cast<u32>(metric)] : std::numeric_limits<double>::quiet_NaN();
  }
  Metrics& set(Metric metric, double value) {
    values_[static_cast<u32>(metric)] = value;
    present_.set(static_cast<u32>(metric));
    return *this;
  }
  // Calls fn(Metric, value) for those that are present, in the order of the table.
  template <class Fn>
  void each(Fn&& fn) const {
    for (u32 i = 0; i < metric_count; ++i)
      if (present_[i]) fn(static_cast<Metric>(i), values_[i]);
  }

 private:
  std::array<double, metric_count> values_{};
  std::bitset<metric_count> present_;
};

struct MetricLine {
  LogEvent event{};
  u64 step = 0;
  Metrics metrics;
  std::optional<ExpertTokens> expert_tokens;  // of steps; not in every line, for its size
};

// Members of RouterMetrics by their metric.
struct RouterMetric {
  Metric metric;
  double RouterMetrics::*value;
};
inline constexpr std::array<RouterMetric, 5> router_metrics = {
    {{Metric::router_balance, &RouterMetrics::balance},
     {Metric::router_z, &RouterMetrics::z},
     {Metric::router_entropy, &RouterMetrics::entropy},
     {Metric::expert_imbalance, &RouterMetrics::imbalance},
     {Metric::expert_imbalance_most, &RouterMetrics::imbalance_most}}};

}  // namespace tidepool
