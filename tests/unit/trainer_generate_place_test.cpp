#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/support/family_cases.h"
#include "tests/support/train_fixture.h"
#include "trainer/generate_place.h"

namespace tidepool {
namespace {

TEST(GeneratePlace, AModelDirectoryOfOthersHasNoHashes) {
  const testing::TrainDir dir;
  const std::string model = dir / "run/model";
  std::filesystem::create_directories(dir / "run");
  std::filesystem::copy(test::family_directory("llama_tied"), model);
  const auto alone = find_generate_place(model);
  EXPECT_EQ(alone.error().kind, ErrorKind::usage);
  EXPECT_THAT(alone.error().message,
              ::testing::HasSubstr("stands alone: budgets are read from the config.yaml"));
  std::ofstream(dir / "run/config.yaml") << "";
  const auto found = find_generate_place(model);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->checkpoint, model);
  EXPECT_THAT(found->run_dir, ::testing::EndsWith("/run"));
}

}  // namespace
}  // namespace tidepool
