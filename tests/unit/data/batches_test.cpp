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
    targets += static_cast<u64>(std::ranges::count_if(first.targets, has_loss));
  }
  EXPECT_EQ(targets, source.target_tokens(4));
  for (u64 b = 0; b < source.validation_batches(); ++b)
    ASSERT_TRUE(source.load_validation_batch(b, first.arrays()));
}

class DataPadding : public DataBatches {
 protected:
  // RETURNS: places with a token; checks that padding is last in each sequence.
  u64 tokens_of_row() const {
    u64 found = 0;
    for (u32 i = 0; i < row_.targets.size(); ++i) {
      const bool padding = row_.targets[i] == padding_target;
      EXPECT_TRUE(padding || has_loss(row_.targets[i]) || row_.targets[i] == ignored_target);
      EXPECT_TRUE(!padding || row_.tokens[i] == 0);
      EXPECT_TRUE(padding || i % 16 == 0 || row_.targets[i - 1] != padding_target);
      found += !padding;
    }
    return found;
  }
  // RETURNS: micro-batches of an epoch without any token.
  u64 check_epoch(const BatchSource& source, u32 micro_batches) {
    u64 empty = 0;
    for (u64 step = 1; step <= source.steps_per_epoch(); ++step) {
      u64 of_step = 0;
      for (u32 m = 0; m < micro_batches; ++m) {
        EXPECT_TRUE(source.load_batch(step, m, row_.arrays()));
        const u64 of_batch = tokens_of_row();
        EXPECT_EQ(of_batch == 0, m + source.empty_micro_batches(step) >= micro_batches) << step << " " << m;
        of_step += of_batch;
      }
      EXPECT_EQ(of_step, source.tokens(step));
      empty += source.empty_micro_batches(step);
    }
    return empty;
  }

  Row row_ = Row(32);
};

TEST_F(DataPadding, MarksAllPlacesWithoutATokenAndNoOthers) {
  std::string ids;
  for (u32 i = 0; i < 2 * 203; ++i) ids += static_cast<char>(i % 2 == 0 ? i % 89 : 0);  // uint16
  const std::string lines = letters("a.jsonl", 23, 14), tokens = write("ids.bin", ids);
  const DataConfig configs[] = {{.train = {lines}, .validation_fraction = 0.2, .packing = true},
                                {.train = {lines}, .validation_fraction = 0.2, .packing = false},
                                {.train = {tokens}, .validation_fraction = 0.2}};
  for (const DataConfig& config : configs) {
    const auto data = opened(config);
    const BatchSource several_steps(*data, {.sequences = 2, .tokens = 16}, 2);
    EXPECT_GT(several_steps.steps_per_epoch(), 1u);
    check_epoch(several_steps, 2);
    const BatchSource one_step(*data, {.sequences = 2, .tokens = 16}, 11);
    EXPECT_GT(check_epoch(one_step, 11), 0u);
    for (u64 b = 0; b < one_step.validation_batches(); ++b) {
      ASSERT_TRUE(one_step.load_validation_batch(b, row_.arrays()));
      EXPECT_GT(tokens_of_row(), 0u);
    }
  }
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
