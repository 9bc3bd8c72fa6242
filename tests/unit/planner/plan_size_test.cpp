// Jobs too large for interactive planning are refused at once, with a value that works.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "config/config.h"
#include "config_files/load_config.h"
#include "fit/job.h"
#include "planner/advice/change_text.h"
#include "planner/shapes.h"
#include "tests/support/asked_plan.h"
#include "tests/support/places.h"

namespace tidepool::plan_size_test {

using ::testing::HasSubstr;

Result<Config> quickstart_with(const std::vector<std::string>& overrides) {
  return load_config(source_file("configs/quickstart.yaml"), overrides);
}

// RETURNS: an error whose message is "" if the job can be planned. Only checks, plans nothing.
Error refusal(const std::vector<std::string>& overrides, u64 chunk_elements = 32 * kib) {
  const Result<Config> config = quickstart_with(overrides);
  if (!config) return config.error();
  const PlanOptions options = plan_options(*config);
  const u64 elements = options.chunk_bytes.value != 0 ? options.chunk_bytes.value / 4 : chunk_elements;
  const auto checked = check_plan_size(make_job(*config).value().graph, options, elements);
  if (checked) return {};
  EXPECT_EQ(checked.error().kind, ErrorKind::usage);
  return checked.error();
}

std::string complaint(const std::vector<std::string>& overrides, u64 chunk_elements = 32 * kib) {
  return refusal(overrides, chunk_elements).message;
}

TEST(PlanSize, SensibleUsesArePossible) {
  EXPECT_EQ(complaint({"gradient_accumulation_steps=1000", "n_layer=10"}), "");
  EXPECT_EQ(complaint({"n_layer=1000"}), "");
  EXPECT_EQ(complaint({"n_layer=96", "n_embd=12288", "n_head=96", "vocab_size=50304", "executor=cpu:8",
                       "gradient_accumulation_steps=8"},
                      16 * mib),
            "");
}

// A host of 4 GiB wants small chunks; 70B parameters would then have so many that planning takes a minute.
TEST(PlanSize, ChunksAreSmallOnASmallHostAsLongAsTheyAreFew) {
  const auto chunk_bytes = [](const std::vector<std::string>& overrides) {
    const Config config = quickstart_with(overrides).value();
    return 4 * chunk_elements_to_try(make_job(config).value().graph, plan_options(config)).front();
  };
  EXPECT_EQ(chunk_bytes({"n_embd=2048", "n_layer=26", "memory.host=4GiB"}), 8 * mib);
  EXPECT_EQ(chunk_bytes({"n_embd=8192", "n_head=64", "n_layer=86", "memory.host=4GiB"}), 32 * mib);
}

TEST(PlanSize, JobsThatTakeTooLongAreRefusedWithAValueThatWorks) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"gradient_accumulation_steps=1000000"}, "train.gradient_accumulation_steps"},
      {{"n_embd=1024", "n_layer=100", "chunk_size=4KiB"}, "memory.chunk_size"},
      {{"vocab_size=16777216"}, "memory.chunk_size"},
      {{"n_positions=60000", "sequence_length=60000", "tile_tokens=4", "piece_tokens=4"},
       "memory.piece_tokens"}};
  for (const auto& [overrides, key] : cases) {
    const Error error = refusal(overrides);
    ASSERT_EQ(error.changes.size(), 1u) << error.message;
    const Setting advice = error.changes.front().settings.at(0);
    EXPECT_EQ(advice.key, key);
    EXPECT_THAT(error.message, HasSubstr("set " + setting_text(advice)));
    std::vector<std::string> mended = overrides;
    mended.push_back(setting_text(advice));
    EXPECT_EQ(complaint(mended), "") << error.message;
  }
  EXPECT_THAT(complaint({"n_layer=65536"}), HasSubstr("n_layer"));
  EXPECT_THAT(complaint({"gradient_accumulation_steps=4294967294"}),
              HasSubstr("gradient_accumulation_steps"));
}

}  // namespace tidepool::plan_size_test
