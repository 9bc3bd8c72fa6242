// Messages for losses that are not finite: the cause, and the exit code.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "cli/cli.h"
#include "inference/evaluate.h"
#include "run/step_faults.h"
#include "tests/support/file_text.h"
#include "tests/support/model_directory.h"
#include "tests/support/train_fixture.h"

namespace tidepool::not_finite_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Every weight is 1e18, so that products of products are infinite.
std::string directory_of_overflow(const test::TrainDir& dir) {
  const std::string model = dir / "model";
  test::write_model_directory(model, test::small_model(Family::llama), Precision::fp32);
  std::string bytes = test::file_text(model + "/model.safetensors");
  u64 header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  std::fill(bytes.begin() + 8 + static_cast<std::ptrdiff_t>(header_bytes), bytes.end(), '\x5d');
  test::write_file(model + "/model.safetensors", bytes);
  return model;
}

// Regression: the learning rate was blamed, although it had not changed anything yet.
TEST(NotFinite, InTheFirstStepTheWeightsAreAtFault) {
  const test::TrainDir dir;
  for (const double clipping : {0.0, 1.0}) {
    Config c = test::small_config(dir, clipping == 0 ? "free" : "clipped");
    c.model_directory = directory_of_overflow(dir);
    c.model = read_model_directory(c.model_directory).value();
    c.train.max_grad_norm = clipping;
    const auto report = test::run(c);
    ASSERT_FALSE(report);
    EXPECT_EQ(exit_code(report.error()), 7);
    EXPECT_THAT(report.error().message,
                AllOf(HasSubstr("step 1: loss nan"), HasSubstr("in the weights of " + c.model_directory),
                      Not(HasSubstr("learning_rate"))));
    // Step 2 was in progress.
    EXPECT_THAT(test::file_text(c.output.dir + "/metrics.jsonl"),
                AllOf(HasSubstr("\"step\": 1"), Not(HasSubstr("\"step\": 2"))));
  }
}

TEST(NotFinite, LaterTheLearningRateIs) {
  BadStep bad{
      .step = 5, .result = {.loss = nan, .grad_norm = nan}, .model_directory = "m", .way_on = "begin"};
  EXPECT_EQ(
      non_finite_step(bad).message,
      "step 5: loss nan and gradient norm nan; lower train.learning_rate or raise train.warmup_steps, and "
      "begin");
  EXPECT_THAT(no_lower_scale(bad).message, HasSubstr("lower train.learning_rate"));
  bad.weights_are_the_first = true;
  EXPECT_THAT(
      no_lower_scale(bad).message,
      AllOf(HasSubstr("in the weights of m, or set train.precision=bf16"), Not(HasSubstr("learning_rate"))));
  bad.model_directory.clear();
  EXPECT_THAT(non_finite_step(bad).message, HasSubstr("lower model.initializer_range"));
}

EvaluatedPart part(const char* name, double loss) {
  EvaluatedPart out{.name = name, .result = {.targets = 1}};
  out.result.sums[Sum::loss] = loss;
  return out;
}

TEST(NotFinite, EvaluationCountsItsParts) {
  Evaluation e{.weights = "w", .parts = {part("a", 2)}};
  EXPECT_TRUE(check_losses_are_finite(e));
  for (const char* name : {"b", "c"}) e.parts.push_back(part(name, nan));
  const auto checked = check_losses_are_finite(e);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::non_finite);
  EXPECT_THAT(checked.error().message,
              HasSubstr("the losses of 2 of 3 parts are not finite, such as the loss of b (nan); look"));
}

TEST(NotFinite, EvaluationEndsWithItsExitCode) {
  const test::TrainDir dir;
  const std::string model = directory_of_overflow(dir);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code =
      run_cli({"eval", model, "data=" + dir.data(), "--json", "memory.device=16MiB", "memory.host=16MiB",
               "train.sequence_length=32", "machine.threads=2", "output.dir=" + (dir / "run")});
  std::fflush(stdout);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("\"eval_loss\": null"));
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("the loss of " + dir.data() + " is nan"), HasSubstr("in the weights of " + model)));
  EXPECT_EQ(code, 7);
}

}  // namespace tidepool::not_finite_test
