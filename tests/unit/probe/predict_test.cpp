// Item "prediction off where the machine changed speed during a start-up measurement that is too short".
#include "probe/step/predict.h"

#include <gmock/gmock.h>

#include "fit/job.h"
#include "planner/planner.h"
#include "probe/step/round_judge.h"
#include "session/session.h"
#include "tests/support/asked_plan.h"
#include "tests/support/train_fixture.h"

namespace tidepool::predict_test {

struct Verdict {
  u32 rounds = 0, counting = 0;
  bool operator==(const Verdict&) const = default;
};

// Judges rounds that take a tenth of a second each and predict these steps, repeating the last one.
Verdict judged(const std::vector<double>& steps, double round_seconds = 0.1) {
  RoundJudge judge(0);
  for (u32 i = 0;; ++i)
    if (!judge.needs_another(steps[std::min<size_t>(i, steps.size() - 1)], (i + 1) * round_seconds))
      return {i + 1, judge.counting()};
}

TEST(RoundJudge, RoundsEndOnceTwoInARowAgree) {
  EXPECT_EQ(judged({1.0, 1.04}), (Verdict{2, 2}));
  EXPECT_EQ(judged({1.04, 1.0}), (Verdict{2, 2}));
  EXPECT_EQ(judged({1.6, 1.0, 1.02}), (Verdict{3, 2}));      // became fast during the first round
  EXPECT_EQ(judged({1.0, 1.6, 2.2, 2.2}), (Verdict{4, 2}));  // becomes slower
  EXPECT_EQ(judged({1.0, 1.5, 1.0, 1.5, 1.0, 1.5}), (Verdict{6, 6}));
}

TEST(RoundJudge, LargeModelsAreMeasuredTwice) {
  EXPECT_EQ(judged({1.0, 1.6}, 20), (Verdict{2, 2}));  // both count: the spread is reported
  EXPECT_EQ(judged({1.0, 1.6, 1.0, 1.6}, 0.5), (Verdict{3, 3}));
}

struct NoData final : StepSource {
  Result<void> load_batch(const BatchRequest&, const BatchArrays&) override { return {}; }
  StepSettings settings(u64) const override { return {}; }
};

TEST(Predict, CarriesTheSpreadOfItsRounds) {
  const test::TrainDir dir;
  Config config = test::small_config(dir);
  config.memory.home = HomePolicy::disk;
  config.memory.chunk_size = Bytes{40 * kib};
  config.memory.swap_dir = dir / "swap";
  const Job job = make_job(config).value();
  NoData source;
  const auto session =
      Session::create(job, make_plan(job.graph, plan_options(config, Bytes{gib})).value(), source).value();
  const Result<Prediction> made = predict_step(*session);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_GT(made->step_seconds.least, 0);
  EXPECT_GE(made->step_seconds.most, made->step_seconds.least);
  EXPECT_GT(made->peak_range.least, 0);
  EXPECT_GE(made->peak_flops_per_s, made->peak_range.least);
  EXPECT_LE(made->peak_flops_per_s, made->peak_range.most);
  // Medians of the rounds' measurements predict a step near the rounds' range. How near depends on the other
  // work of the machine.
  EXPECT_GT(made->forecast.step_seconds, 0.25 * made->step_seconds.least);
  EXPECT_LT(made->forecast.step_seconds, 4 * made->step_seconds.most);
  EXPECT_GT(made->machine.disk.read_bytes_per_s, 0);
}

}  // namespace tidepool::predict_test
