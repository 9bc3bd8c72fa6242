#include <gmock/gmock.h>

#include <filesystem>

#include "config/config.h"
#include "config_files/load_config.h"
#include "tests/support/disk_fixture.h"

namespace tidepool::data_test {

using testing::HasSubstr;

constexpr std::string_view rest = "\nmemory: {device: 1GiB, host: 1GiB}\n";

Result<Config> parsed(std::string_view data, const std::vector<std::string>& overrides = {}) {
  return parse_config(std::string(data) + std::string(rest), "c.yaml", overrides);
}
std::string fault(std::string_view data) {
  const auto config = parsed(data);
  return config ? "it was taken" : config.error().message;
}

TEST(ConfigData, SourcesHaveWeightsInTheListOrBesideIt) {
  const auto listed =
      parsed("data:\n  train:\n    - {path: a.jsonl, weight: 0.7}\n    - {weight: 3, path: b}");
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ(listed->data.train, (std::vector<std::string>{"a.jsonl", "b"}));
  EXPECT_EQ(listed->data.weights, (std::vector<double>{0.7, 3}));
  const auto beside = parsed("data: {train: [a.jsonl, b]}", {"data.weights=0.7, 3"});
  ASSERT_TRUE(beside) << beside.error().message;
  EXPECT_EQ(beside->data, listed->data);
  const auto back = parse_config(to_yaml(*listed), "effective.yaml", {});
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, *listed);
  const auto without = parsed("data: {train: [{path: a, weight: 1}]}", {"data.weights=[]"});
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_TRUE(without->data.weights.empty());
}

TEST(ConfigData, WeightsThatMeanNothingAreRefused) {
  EXPECT_THAT(fault("data: {train: [{path: a, weight: x}]}"), HasSubstr("weight 'x' is not a number"));
  EXPECT_THAT(fault("data: {train: [{path: a}]}"),
              HasSubstr("write every entry as {path: FILE, weight: 0.7}"));
  EXPECT_THAT(fault("data: {train: [{path: a, weight: 1}, b]}"), HasSubstr("write every entry as"));
  EXPECT_THAT(fault("data: {train: [{path: a, weight: 0}]}"),
              HasSubstr("c.yaml:1: data.weights: 0 is not a weight"));
  EXPECT_THAT(fault("data: {train: [a, b], weights: [1]}"),
              HasSubstr("1 weights for 2 entries of data.train"));
  EXPECT_THAT(fault("data: {train: [a], weights: [[1]]}"), HasSubstr("every item must be a number"));
  EXPECT_THAT(fault("data: {train: a, loss: answer}"), HasSubstr("did you mean 'answers'?"));
  EXPECT_THAT(fault("data: {train: a, records: chat}"), HasSubstr("is not one of auto, text, messages"));
}

TEST(ConfigData, TheCacheLiesBesideTheRuns) {
  Config config;
  EXPECT_EQ(data_cache_directory(config), "runs/data-cache");
  config.output.dir = "/a/b/";
  EXPECT_EQ(data_cache_directory(config), "/a/data-cache");
  config.output.dir = "run";
  EXPECT_EQ(data_cache_directory(config), "data-cache");
  config.data.cache = "else/where";
  EXPECT_EQ(data_cache_directory(config), "else/where");
}

// The file is looked up from within a run too, and through a link.
TEST(ConfigData, TunedProductsLieBesideTheRunUnderAnyOfItsNames) {
  namespace fs = std::filesystem;
  const test::ScratchDir dir;
  fs::create_directories(dir / "runs/x");
  fs::create_directory_symlink(dir / "runs/x", dir / "link");
  const std::string expected = fs::canonical(dir.path()) / "runs/tuned-products.txt";
  Config config;
  for (const std::string& name : {dir / "runs/x", dir / "runs/x/", dir / "link", dir / "link/",
                                  dir / "runs/not-yet", dir / "runs/not-yet/", dir / "runs/y/../x"}) {
    config.output.dir = name;
    EXPECT_EQ(product_file(config), expected) << name;
  }
  const fs::path before = fs::current_path();
  fs::current_path(dir / "runs/x");
  for (const char* name : {".", "./", "../x"}) {
    config.output.dir = name;
    EXPECT_EQ(product_file(config), expected) << name;
  }
  fs::current_path(before);
}

}  // namespace tidepool::data_test
