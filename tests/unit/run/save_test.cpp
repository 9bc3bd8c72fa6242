// Runs that only measure write no checkpoint.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/train_fixture.h"

namespace tidepool::save_test {

using test::TrainDir;
using ::testing::HasSubstr;
using ::testing::Not;

u64 checkpoints_in(const std::string& dir) {
  u64 count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir))
    count += entry.path().filename().string().starts_with("checkpoint");
  return count;
}

TEST(TrainerSave, SavesNothingIfTheConfigSaysSo) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  config.output.save_steps = 1;
  const auto saved = test::run(config);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_GT(checkpoints_in(config.output.dir), 0u);
  config.output.save = false;
  config.output.dir = dir / "measured";
  const auto measured = test::run(config);
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(checkpoints_in(config.output.dir), 0u);
  EXPECT_EQ(measured->losses, saved->losses);
  EXPECT_EQ(measured->checkpoint_written, Bytes{0});
}

TEST(TrainerSave, AStoppedRunSaysThatNothingIsLeft) {
  const TrainDir dir;
  Config config = test::small_config(dir);
  config.output.save = false;
  const auto stopped = test::run(config, {.stop_after = 2});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, ErrorKind::interrupted);
  EXPECT_THAT(stopped.error().message, HasSubstr("output.save is false"));
  EXPECT_THAT(stopped.error().message, Not(HasSubstr("--resume")));
}

}  // namespace tidepool::save_test
