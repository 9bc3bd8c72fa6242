// Compares fp16's loss scale with PyTorch's GradScaler on the same overflows (scripts/make_golden_fp16.py
// prints the table).
#include "kernels/loss_scale.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/gradient/step_result.h"

namespace tidepool::loss_scale_test {

struct Followed {
  bool overflow;
  float scale;  // afterwards
  u32 good_steps;
};

TEST(LossScale, FollowsPytorchsGradScaler) {
  const LossScaling scaling{.growth_factor = 2, .backoff_factor = 0.5, .min_scale = 0, .growth_interval = 3};
  // init_scale 1024
  const std::vector<Followed> steps = {
#include "tests/golden/pytorch/grad_scaler.inc"
  };
  ASSERT_GE(steps.size(), 30u);
  LossScale at{.scale = 1024};
  u64 skipped = 0;
  for (const Followed& step : steps) {
    at = after_step(at, scaling, step.overflow);
    skipped += step.overflow;
    EXPECT_EQ(at, (LossScale{.scale = step.scale, .good_steps = step.good_steps, .skipped_steps = skipped}));
  }
}

TEST(LossScale, FallsToTheLeastAndNoFurther) {
  const LossScaling scaling{.min_scale = 100, .growth_interval = 3};
  LossScale at{.scale = 256};
  at = after_step(at, scaling, true);
  EXPECT_EQ(at.scale, 128);
  at = after_step(at, scaling, true);
  EXPECT_EQ(at.scale, 100);
  EXPECT_EQ(after_step(at, scaling, true).scale, 100);
}

TEST(LossScale, StopsGrowingWhereFactorsWouldGoWrong) {
  const LossScaling scaling{.growth_factor = 65536, .growth_interval = 1};
  LossScale at{.scale = 1};
  for (u32 i = 0; i < 20; ++i) at = after_step(at, scaling, false);
  EXPECT_EQ(at, (LossScale{.scale = loss_scale_max}));
}

TEST(LossScale, OtherPrecisionsHaveNone) {
  const StepResult result = step_result({.sums = Sums::of_loss(2), .grad_norm = 3, .target_tokens = 4});
  EXPECT_EQ(result.grad_norm, 3);
  EXPECT_EQ(result.next_loss_scale, LossScale{});
  EXPECT_EQ(after_step({}, {}, true), LossScale{});
}

TEST(LossScale, TheNormIsOfTheGradientWithoutIt) {
  const StepSums sums{.sums = Sums::of_loss(2),
                      .grad_norm = 3 * 512,
                      .target_tokens = 4,
                      .loss_scale = {.scale = 512},
                      .loss_scaling = {.growth_interval = 1}};
  EXPECT_EQ(step_result(sums).grad_norm, 3);
  EXPECT_EQ(step_result(sums).next_loss_scale.scale, 1024);
}

}  // namespace tidepool::loss_scale_test
