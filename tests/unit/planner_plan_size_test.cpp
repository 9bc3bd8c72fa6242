// Jobs that cannot be planned while one waits are refused at once, with a value that works.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "config/config.h"
#include "planner/plan_size.h"
#include "trainer/session.h"

namespace tidepool {
namespace {

using ::testing::HasSubstr;

Result<Config> quickstart_with(const std::vector<std::string>& overrides) {
  return load_config(TIDEPOOL_SOURCE_DIR "/configs/quickstart.yaml", overrides);
}

// "" if it can be planned; checks only, plans nothing.
std::string complaint(std::vector<std::string> overrides, u64 chunk_elements = 32 * kib) {
  const Result<Config> config = quickstart_with(overrides);
  if (!config) return config.error().message;
  const PlanOptions options = plan_options(*config);
  const u64 elements = options.chunk_bytes.value != 0 ? options.chunk_bytes.value / 4 : chunk_elements;
  const auto checked = check_plan_size(make_graph(*config).value(), options, elements);
  if (checked) return "";
  EXPECT_EQ(checked.error().kind, ErrorKind::usage);
  return checked.error().message;
}

// "... set KEY=VALUE ...": the advice, as an override.
std::string advice_in(const std::string& message, const std::string& key) {
  const size_t at = message.find(key + "=");
  return at == std::string::npos ? "" : message.substr(at, message.find_first_of(" ,;", at) - at);
}

TEST(PlanSize, SensibleUsesArePossible) {
  EXPECT_EQ(complaint({"gradient_accumulation_steps=1000", "n_layer=10"}), "");
  EXPECT_EQ(complaint({"n_layer=1000"}), "");
  EXPECT_EQ(complaint({"n_layer=96", "n_embd=12288", "n_head=96", "vocab_size=50304", "executor=cpu:8",
                       "gradient_accumulation_steps=8"},
                      16 * mib),
            "");
}

TEST(PlanSize, WhatHangsIsRefusedWithAValueThatWorks) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"gradient_accumulation_steps=1000000"}, "train.gradient_accumulation_steps"},
      {{"n_embd=1024", "n_layer=100", "chunk_size=4KiB"}, "memory.chunk_size"},
      {{"vocab_size=16777216"}, "memory.chunk_size"}};
  for (const auto& [overrides, key] : cases) {
    const std::string message = complaint(overrides);
    const std::string advice = advice_in(message, key);
    ASSERT_NE(advice, "") << message;
    std::vector<std::string> mended = overrides;
    mended.push_back(advice);
    EXPECT_EQ(complaint(mended), "") << message;
  }
  EXPECT_THAT(complaint({"n_layer=65536"}), HasSubstr("n_layer"));
  EXPECT_THAT(complaint({"gradient_accumulation_steps=4294967294"}),
              HasSubstr("gradient_accumulation_steps"));
}

}  // namespace
}  // namespace tidepool
