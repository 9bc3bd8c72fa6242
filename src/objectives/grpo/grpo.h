// Group relative policy optimization (Shao et al., arXiv:2402.03300) and its kin, on rollouts that were
// sampled elsewhere: a completion is made more probable by as much as its reward is above its group's mean.
#pragma once

#include <array>

#include "base/text/units.h"
#include "objectives/means.h"

namespace tidepool {

// DAPO (arXiv:2503.14476), Dr. GRPO (arXiv:2503.20783), CISPO (arXiv:2506.13585), SAPO (arXiv:2511.20347).
inline constexpr std::array<std::string_view, 7> grpo_losses = {"dapo",  "grpo",  "bnpo", "dr_grpo",
                                                                "cispo", "luspo", "sapo"};

inline double clipped_share(const Sums& sums, double) {
  return (sums[Sum::low_clipped] + sums[Sum::high_clipped]) / sums[Sum::ratios];
}

inline constexpr std::array<ObjectiveMetric, 6> rollout_metrics = {
    {{"kl", mean_over<Sum::kl, Sum::tokens>},
     {"clip_ratio/low_mean", mean_over<Sum::low_clipped, Sum::ratios>},
     {"clip_ratio/high_mean", mean_over<Sum::high_clipped, Sum::ratios>},
     {"clip_ratio/region_mean", clipped_share},
     {"completions/mean_length", mean_over<Sum::tokens, Sum::units>},
     mean_entropy}};

inline ObjectiveRule rollout_rule(const ObjectiveConfig& c) {
  return {.unit = LossUnit::rollout,
          .sequences = 1,
          .beta = c.beta,
          .reference = c.beta > 0,
          .rollout = {.corrected_kl = c.use_bias_correction_kl,
                      .epsilon = c.epsilon,
                      .epsilon_high = c.epsilon_high > 0 ? c.epsilon_high : c.epsilon,
                      .delta = c.delta,
                      .fixed_length = static_cast<double>(c.max_completion_length),
                      .positive_temperature = c.sapo_temperature_pos,
                      .negative_temperature = c.sapo_temperature_neg}};
}

constexpr RolloutMean rollout_mean(std::string_view loss_type) {
  using enum RolloutMean;
  return loss_type == "grpo"      ? of_sequences
         : loss_type == "sapo"    ? of_sequences
         : loss_type == "bnpo"    ? of_batch_tokens
         : loss_type == "dr_grpo" ? of_fixed_length
         : loss_type == "luspo"   ? of_sums
                                  : of_step_tokens;
}

inline ObjectiveRule grpo_rule(const ObjectiveConfig& c) {
  const std::string_view loss_type = c.loss_type.empty() ? grpo_losses[0] : std::string_view(c.loss_type[0]);
  ObjectiveRule rule = rollout_rule(c);
  if (loss_type == "cispo") rule.rollout.loss = RolloutLoss::cispo;
  if (loss_type == "sapo") rule.rollout.loss = RolloutLoss::sapo;
  rule.rollout.mean = rollout_mean(loss_type);
  if (c.importance_sampling_level == ImportanceLevel::sequence) rule.rollout.ratio = RatioOf::sequence_mean;
  return rule;
}

constexpr Objective rollout_objective(ObjectiveRule (*rule)(const ObjectiveConfig&)) {
  return {.documents = Documents::rollouts,
          .targets = "targets",
          .takes = "prompt, completions and rewards",
          .figure = {.metric = "eval_clip_ratio/region_mean",
                     .word = "clipped",
                     .of = clipped_share,
                     .text = significant_text},
          .metrics = rollout_metrics,
          .beta = 0,
          .beta_may_be_zero = true,
          .rule = rule};
}

inline constexpr auto grpo_keys = std::to_array<std::string_view>(
    {"max_length", "share_prompts", "beta", "epsilon", "epsilon_high", "delta", "use_bias_correction_kl",
     "logit_metrics", "loss_type", "importance_sampling_level", "scale_rewards", "max_completion_length",
     "sapo_temperature_pos", "sapo_temperature_neg"});

inline constexpr Objective grpo = [] {
  Objective row = rollout_objective(grpo_rule);
  row.losses = grpo_losses, row.keys = grpo_keys;
  return row;
}();

}  // namespace tidepool
