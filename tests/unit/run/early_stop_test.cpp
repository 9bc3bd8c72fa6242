#include "run/early_stop.h"

#include <gmock/gmock.h>

#include <limits>

#include "config/config.h"
#include "config_files/load_config.h"

namespace tidepool::early_stop_test {

u64 count(const std::vector<double>& losses, double threshold = 0) {
  std::vector<EvalLoss> evaluations;
  for (size_t i = 0; i < losses.size(); ++i) evaluations.push_back({10 * (i + 1), losses[i]});
  return evaluations_without_gain(evaluations, threshold);
}

TEST(EarlyStop, CountsEvaluationsWithoutAGain) {
  EXPECT_EQ(count({}), 0u);
  EXPECT_EQ(count({3}), 0u);
  EXPECT_EQ(count({3, 3}), 1u);  // an equal loss is not lower
  EXPECT_EQ(count({3, 2, 2.5, 2.1}), 2u);
  EXPECT_EQ(count({3, 2, 2.5, 1.9}), 0u);
}

// As in EarlyStoppingCallback: a gain below the threshold becomes the best, but does not count as a gain.
TEST(EarlyStop, SmallGainsAreNone) {
  EXPECT_EQ(count({3, 2.95, 2.9}, 0.1), 2u);
  EXPECT_EQ(count({3, 2.95, 2.86}, 0.1), 2u);  // 0.09 below the best, though 0.14 below the first
  EXPECT_EQ(count({3, 2.95, 2.84}, 0.1), 0u);
}

TEST(EarlyStop, NoNumberIsNoGain) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(count({3, nan, nan}), 2u);
  EXPECT_EQ(count({nan, 3}), 0u);
  EXPECT_EQ(count({nan, nan}), 1u);
}

TEST(BestEvaluation, IsTheFirstWithTheLowestLoss) {
  const auto step = [](const std::vector<EvalLoss>& evaluations) {
    const EvalLoss* best = best_evaluation(evaluations);
    return best == nullptr ? 0 : best->step;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(step({}), 0u);
  EXPECT_EQ(step({{10, 3}, {20, 2}, {30, 2}, {40, 2.5}}), 20u);
  EXPECT_EQ(step({{10, nan}, {20, 5}, {30, nan}}), 20u);
}

TEST(EarlyStop, SaysWhy) {
  const std::vector<EvalLoss> evaluations = {{10, 3}, {20, 2}, {30, 2.5}, {40, 2.25}};
  EXPECT_EQ(why_stop_early(evaluations, {.early_stopping_patience = 3}), "");
  EXPECT_EQ(why_stop_early(evaluations, {}), "");
  EXPECT_EQ(why_stop_early(evaluations, {.early_stopping_patience = 2}),
            "eval_loss has not improved in 2 evaluations; the best was 2.0000 at step 20");
}

// Regression: losses over other held-out tokens were compared, and a run stopped although it improved each
// time.
TEST(EarlyStop, OtherTokensRestartTheCount) {
  const std::vector<EvalLoss> all = {
      {10, 3, 484}, {20, 2, 484}, {30, 2.5, 484}, {40, 4, 4397}, {50, 3.5, 4397}};
  const std::span<const EvalLoss> evaluations = all;
  EXPECT_EQ(evaluations_without_gain(evaluations.first(3), 0), 1u);
  EXPECT_EQ(evaluations_without_gain(evaluations.first(4), 0), 0u);
  EXPECT_EQ(evaluations_without_gain(evaluations, 0), 0u);
  EXPECT_EQ(best_evaluation(evaluations.first(3))->step, 20u);
  EXPECT_EQ(best_evaluation(evaluations.first(4))->step, 40u);
  EXPECT_EQ(best_evaluation(evaluations)->step, 50u);
  const auto said = [&](u64 count, u64 patience) {
    return why_best_begins_anew(evaluations.first(count), {.early_stopping_patience = patience});
  };
  for (const u64 count : {0, 1, 2, 3, 5}) EXPECT_EQ(said(count, 2), "") << count;
  EXPECT_EQ(said(4, 0),
            "eval_loss 2.0000 at step 20, the best so far, was not measured on these 4397 tokens and cannot "
            "be compared: this evaluation is the first for a new best");
  EXPECT_THAT(said(4, 2), ::testing::EndsWith("a new best, and early stopping starts to count again"));
}

// Files of older versions do not state the tokens: they are compared, as before.
TEST(EarlyStop, UnknownTokenCountsAreTakenAsEqual) {
  const std::vector<EvalLoss> evaluations = {{10, 2}, {20, 3, 484}, {30, 2.5}, {40, 2.25, 484}};
  EXPECT_EQ(evaluations_without_gain(evaluations, 0), 3u);
  EXPECT_EQ(best_evaluation(evaluations)->step, 10u);
  EXPECT_EQ(why_best_begins_anew(evaluations, {}), "");
}

TEST(EarlyStop, NeedsEvaluations) {
  const auto refusal = [](const std::vector<std::string>& overrides) {
    std::vector<std::string> all = {"data.train=x", "memory.device=1MiB", "memory.host=1MiB",
                                    "early_stopping_patience=2"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    const Result<Config> config = parse_config("", "c.yaml", all);
    return config ? std::string("accepted") : config.error().message;
  };
  EXPECT_THAT(refusal({}), ::testing::HasSubstr("set train.eval_steps too"));
  EXPECT_THAT(refusal({"eval_steps=5", "validation_fraction=0"}),
              ::testing::HasSubstr("set data.validation"));
  EXPECT_EQ(refusal({"eval_steps=5"}), "accepted");
  EXPECT_EQ(refusal({"eval_steps=5", "validation_fraction=0", "data.validation=y"}), "accepted");
}

}  // namespace tidepool::early_stop_test
