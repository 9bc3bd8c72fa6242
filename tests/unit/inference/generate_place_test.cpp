#include "inference/generate_place.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "inference/evaluate.h"
#include "inference/export_source.h"
#include "tests/support/family_cases.h"
#include "tests/support/places.h"
#include "tests/support/train_fixture.h"

namespace tidepool::generate_place_test {

TEST(GeneratePlace, AModelDirectoryOfOthersHasNoHashes) {
  const test::TrainDir dir;
  const std::string model = dir / "run/model";
  std::filesystem::create_directories(dir / "run");
  std::filesystem::copy(test::family_directory("llama_tied"), model);
  const auto alone = find_generate_place(model);
  EXPECT_EQ(alone.error().kind, ErrorKind::usage);
  EXPECT_THAT(alone.error().message,
              ::testing::HasSubstr("is in no run: budgets are read from the config.yaml"));
  EXPECT_TRUE(stands_alone(model));
  std::ofstream(model + "/config.yaml") << "";  // makes it a run, whose weights are in its checkpoints
  EXPECT_FALSE(stands_alone(model));
  std::filesystem::remove(model + "/config.yaml");
  std::ofstream(dir / "run/config.yaml") << "";
  EXPECT_FALSE(stands_alone(model));
  const auto found = find_generate_place(model);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->checkpoint, model);
  EXPECT_THAT(found->run_dir, ::testing::EndsWith("/run"));
}

// Regression: the message asked for budgets, which had been given.
TEST(GeneratePlace, WeightsWithoutAConfigAreRefused) {
  const test::TrainDir dir;
  const std::string model = dir / "model";
  std::filesystem::copy(test::family_directory("llama_tied"), model);
  std::filesystem::remove(model + "/config.json");
  const auto expect_refused = [&](const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::bad_input);
    EXPECT_THAT(error.message,
                ::testing::HasSubstr(model + " holds no config.json, which describes the model"));
  };
  expect_refused(find_generate_place(model).error());
  expect_refused(find_export_source(model, "").error());
  expect_refused(evaluate_model({.source = model, .data = {dir.data()}, .quiet = true}).error());
}

// Regression: the message asked for a config.yaml, which does not help.
TEST(GeneratePlace, AdaptersWithoutARunMustBeMergedFirst) {
  const test::TrainDir dir;
  const std::string adapter = dir / "adapter";
  std::filesystem::copy(source_file("tests/golden/lora/llama_all"), adapter);
  const auto alone = find_generate_place(adapter);
  EXPECT_EQ(alone.error().kind, ErrorKind::usage);
  EXPECT_THAT(alone.error().message,
              ::testing::HasSubstr("`tidepool export " + adapter + " OUT --base MODEL`"));
  EXPECT_THAT(alone.error().message, ::testing::Not(::testing::HasSubstr("config.yaml")));
}

}  // namespace tidepool::generate_place_test
