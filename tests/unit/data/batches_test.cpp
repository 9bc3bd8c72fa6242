// Rows of a step: batches as a function of the step, and sources mixed by weight.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "data/batches/batch_source.h"
#include "data/batches/mixture.h"
#include "tests/support/document_files.h"

namespace tidepool::batches_test {

class DataBatches : public test::DocumentsFixture {};

TEST_F(DataBatches, BatchesAreAFunctionOfTheStep) {
  const auto data = opened({.train = {letters("a.jsonl", 60, 14)}, .validation_fraction = 0.1});
  const BatchSource source(*data, {.sequences = 2, .tokens = 16}, 2);
  Row first(32), again(32);
  u64 targets = 0;
  for (u32 m = 0; m < 2; ++m) {
    ASSERT_TRUE(source.load_batch(4, m, first.arrays()));
    ASSERT_TRUE(source.load_batch(4, m, again.arrays()));
    EXPECT_EQ(first, again);
    targets +=
        static_cast<u64>(std::ranges::count_if(first.targets, [](i32 t) { return t != ignored_target; }));
  }
  EXPECT_EQ(targets, source.target_tokens(4));
  for (u64 b = 0; b < source.validation_batches(); ++b)
    ASSERT_TRUE(source.load_validation_batch(b, first.arrays()));
}

TEST(DataMixture, EverySourceHasItsShareAtEveryLengthAndItsOwnOrder) {
  const std::vector<double> weights = {0.7, 0.2, 0.1};
  const Mixture mixture(weights);
  std::vector<u64> drawn(3, 0);
  for (u64 i = 0; i < 3 * Mixture::turn + 100; ++i) {
    const Mixture::Draw draw = mixture(i);
    EXPECT_EQ(draw.index, drawn[draw.source]++);
    for (u32 s = 0; s < 3; ++s)
      EXPECT_NEAR(static_cast<double>(drawn[s]), weights[s] * static_cast<double>(i + 1),
                  2.0 + 0.001 * static_cast<double>(i));
  }
  EXPECT_EQ(mixture.share(0) + mixture.share(1) + mixture.share(2), Mixture::turn);
  const Mixture uneven(std::vector<double>{1e9, 1e-9});
  EXPECT_EQ(uneven.share(1), 1u);
}

TEST(DataMixture, ManySmallWeightsTakeTheirPlacesFromSeveralLargeOnes) {
  std::vector<double> weights(45, 1);
  weights.resize(145, 1e-6);
  const Mixture mixture(weights);
  u32 sum = 0;
  for (u32 s = 0; s < weights.size(); ++s) {
    sum += mixture.share(s);
    EXPECT_NEAR(mixture.share(s), s < 45 ? 3996.0 / 45 : 1.0, s < 45 ? 1.0 : 0.0);
  }
  EXPECT_EQ(sum, Mixture::turn);
}

TEST_F(DataBatches, SourcesAreMixedByWeight) {
  std::string small, large;
  for (int i = 0; i < 20; ++i) small += "{\"text\": \"aaaaaaaaaaaaaaaaa\"}\n";
  for (int i = 0; i < 200; ++i) large += "{\"text\": \"bbbbbbbbbbbbbbbbb\"}\n";
  DataConfig config{.train = {write("small.jsonl", small), write("large.jsonl", large)},
                    .validation_fraction = 0,
                    .weights = {3, 1}};
  const auto data = opened(config);
  std::map<i32, u32> rows;
  for (u64 i = 0; i < 400; ++i) ++rows[train_row(*data, i).tokens[0]];
  EXPECT_NEAR(rows['a'], 300, 2);
  EXPECT_NEAR(rows['b'], 100, 2);
  config.weights = {1, 1};
  EXPECT_NE(opened(config)->fingerprint(), data->fingerprint());
}

}  // namespace tidepool::batches_test
