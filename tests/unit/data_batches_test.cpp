#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "data/batch_source.h"
#include "data/shuffle.h"
#include "data/token_dataset.h"
#include "text/utf8.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

TEST(DataShuffle, IsAPermutationForEveryCount) {
  for (u64 count : {1, 2, 3, 4, 5, 16, 17, 255, 1000}) {
    const Permutation order(count, 7, 3);
    std::set<u64> seen;
    for (u64 i = 0; i < count; ++i) seen.insert(order(i));
    EXPECT_EQ(seen.size(), count);
    EXPECT_EQ(*seen.rbegin(), count - 1);
  }
}

TEST(DataShuffle, DependsOnSeedAndEpoch) {
  u32 same_seed = 0, same_epoch = 0, fixed = 0;
  const Permutation a(1000, 1, 0), b(1000, 2, 0), c(1000, 1, 1);
  for (u64 i = 0; i < 1000; ++i) {
    same_seed += a(i) == b(i);
    same_epoch += a(i) == c(i);
    fixed += a(i) == i;
  }
  EXPECT_LT(same_seed, 10u);  // one is expected by chance
  EXPECT_LT(same_epoch, 10u);
  EXPECT_LT(fixed, 10u);
}

TEST(DataUtf8, AcceptsAndRefusesTheEdgesOfTheStandard) {
  const auto fault = [](std::string_view text) {
    Utf8Checker checker;
    std::optional<u64> at;
    for (char c : text) {  // byte by byte: the state carries over
      if (!at) at = checker.feed(std::as_bytes(std::span(&c, 1)));
    }
    return at ? at : checker.finish();
  };
  for (std::string_view good : {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                                "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", ""}) {
    EXPECT_EQ(fault(good), std::nullopt);
  }
  for (std::string_view bad :
       {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc2", "\xe2\x82", "\xf0\x9f\x98"}) {
    EXPECT_NE(fault(bad), std::nullopt);
  }
}

class DataBatches : public testing::Test {
 protected:
  DataBatches() {
    std::string name = (fs::temp_directory_path() / "tidepool_batch_XXXXXX").string();
    dir_ = ::mkdtemp(name.data());
  }
  ~DataBatches() override { fs::remove_all(dir_); }

  // Token i of the row is i, over two files, so that any mistake shows.
  std::unique_ptr<TokenDataset> counting(u32 tokens, u32 length, DataConfig config = {}) {
    std::vector<u16> ids(tokens);
    for (u32 i = 0; i < tokens; ++i) ids[i] = static_cast<u16>(i);
    const u32 cut = tokens / 3;
    write("a.bin", std::span(ids).first(cut));
    write("b.bin", std::span(ids).subspan(cut));
    config.train = {dir_.string()};
    auto data = Dataset::open(config, 65536, length, 5);
    EXPECT_TRUE(data) << data.error().message;
    return std::unique_ptr<TokenDataset>(static_cast<TokenDataset*>(data->release()));
  }
  void write(const char* name, std::span<const u16> ids) {
    std::ofstream(dir_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(ids.size_bytes()));
  }

  fs::path dir_;
};

TEST_F(DataBatches, EveryTokenIsATargetOncePerEpoch) {
  const auto data = counting(1003, 10, {.validation_fraction = 0.1});
  EXPECT_EQ(data->validation_sequences(), 10u);
  EXPECT_EQ(data->train_tokens(), 1003u - 101);
  EXPECT_EQ(data->train_sequences(), 91u);  // 90 whole ones and one of a single target
  std::vector<i32> tokens(10), targets(10);
  for (u64 epoch = 0; epoch < 2; ++epoch) {
    std::multiset<i32> seen;
    for (u64 i = 0; i < 91; ++i) {
      ASSERT_TRUE(data->train_sequence(epoch * 91 + i, {tokens, targets, {}}));
      u32 valid = 0;
      for (u32 t = 0; t < 10; ++t) {
        if (targets[t] == ignored_target) continue;
        EXPECT_EQ(targets[t], tokens[t] + 1);
        seen.insert(targets[t]);
        ++valid;
      }
      EXPECT_EQ(valid, data->train_targets(epoch * 91 + i));
    }
    EXPECT_EQ(seen.size(), 901u);
    EXPECT_EQ(std::set<i32>(seen.begin(), seen.end()).size(), 901u);
    EXPECT_EQ(*seen.rbegin(), 901);
  }
}

TEST_F(DataBatches, ValidationIsTheTailAndUntouchedByTraining) {
  const auto data = counting(1003, 10, {.validation_fraction = 0.1});
  std::vector<i32> tokens(10), targets(10);
  ASSERT_TRUE(data->validation_sequence(0, {tokens, targets, {}}));
  EXPECT_EQ(tokens[0], 902);
  ASSERT_TRUE(data->validation_sequence(9, {tokens, targets, {}}));
  EXPECT_EQ(targets[9], 1002);
}

TEST_F(DataBatches, ShortDataKeepsAtLeastOneSequenceEach) {
  EXPECT_EQ(counting(11, 10)->validation_sequences(), 0u);
  EXPECT_EQ(counting(21, 10)->validation_sequences(), 0u);
  EXPECT_EQ(counting(22, 10)->validation_sequences(), 1u);
  EXPECT_EQ(counting(22, 10)->train_sequences(), 1u);
  EXPECT_EQ(counting(100, 10, {.validation_fraction = 0.0})->validation_sequences(), 0u);
  EXPECT_EQ(counting(40, 10, {.validation_fraction = 0.9})->train_tokens(), 19u);
}

TEST_F(DataBatches, TheLastBatchOfAnEpochIsPadded) {
  const auto data = counting(111, 10, {.validation_fraction = 0.0, .shuffle = false});  // 11 sequences
  const BatchSource source(*data, {.sequences = 2, .tokens = 10}, 2);
  EXPECT_EQ(source.steps_per_epoch(), 3u);
  EXPECT_EQ(source.target_tokens(1), 40u);
  EXPECT_EQ(source.target_tokens(3), 30u);
  EXPECT_EQ(source.target_tokens(4), 40u);
  std::vector<i32> tokens(20), targets(20);
  ASSERT_TRUE(source.load_batch(3, 1, {tokens, targets, {}}));
  EXPECT_EQ(tokens[0], 100);
  EXPECT_EQ(targets[9], 110);
  EXPECT_THAT(std::span(targets).subspan(10), testing::Each(ignored_target));
  EXPECT_THAT(std::span(tokens).subspan(10), testing::Each(0));
  ASSERT_TRUE(source.load_batch(4, 0, {tokens, targets, {}}));
  EXPECT_EQ(tokens[0], 0);  // a new epoch
  EXPECT_EQ(source.epoch(3), 1.0);
}

TEST_F(DataBatches, TargetTokensMatchWhatBatchesHold) {
  const auto data = counting(997, 10, {.validation_fraction = 0.05});
  const BatchSource source(*data, {.sequences = 3, .tokens = 10}, 4);
  std::vector<i32> tokens(30), targets(30);
  for (u64 step = 1; step <= 2 * source.steps_per_epoch(); ++step) {
    u64 count = 0;
    for (u32 m = 0; m < 4; ++m) {
      ASSERT_TRUE(source.load_batch(step, m, {tokens, targets, {}}));
      count += static_cast<u64>(30 - std::ranges::count(targets, ignored_target));
    }
    EXPECT_EQ(source.target_tokens(step), count);
    EXPECT_GT(count, 0u);
  }
  u64 validation = 0;
  for (u64 b = 0; b < source.validation_batches(); ++b) {
    ASSERT_TRUE(source.load_validation_batch(b, {tokens, targets, {}}));
    validation += static_cast<u64>(30 - std::ranges::count(targets, ignored_target));
  }
  EXPECT_EQ(validation, data->validation_sequences() * 10);
}

// The same tokens whatever the split of a step into micro-batches and rows.
TEST_F(DataBatches, AStepDoesNotDependOnMicroBatches) {
  const auto data = counting(2000, 10);
  const BatchSource wide(*data, {.sequences = 4, .tokens = 10}, 1),
      narrow(*data, {.sequences = 1, .tokens = 10}, 4);
  std::vector<i32> tokens(40), targets(40), part(10), part_targets(10);
  ASSERT_TRUE(wide.load_batch(9, 0, {tokens, targets, {}}));
  for (u32 m = 0; m < 4; ++m) {
    ASSERT_TRUE(narrow.load_batch(9, m, {part, part_targets, {}}));
    EXPECT_TRUE(std::ranges::equal(part, std::span(tokens).subspan(m * 10, 10)));
  }
  EXPECT_EQ(wide.fingerprint(), narrow.fingerprint());
}

TEST_F(DataBatches, FingerprintFollowsContentsAndCut) {
  const std::string first = counting(500, 10)->fingerprint();
  EXPECT_EQ(counting(500, 10)->fingerprint(), first);
  EXPECT_NE(counting(501, 10)->fingerprint(), first);
  EXPECT_NE(counting(500, 11)->fingerprint(), first);
  EXPECT_NE(counting(500, 10, {.shuffle = false})->fingerprint(), first);
  EXPECT_NE(counting(500, 10, {.validation_fraction = 0.2})->fingerprint(), first);
}

TEST_F(DataBatches, ThreadsReadTheSame) {
  const auto data = counting(2000, 10);
  const BatchSource source(*data, {.sequences = 4, .tokens = 10}, 1);
  const auto read_all = [&](std::vector<i32>& out) {
    std::vector<i32> tokens(40), targets(40);
    for (u64 step = 1; step <= 60; ++step) {
      if (!source.load_batch(step, 0, {tokens, targets, {}})) return;
      out.insert(out.end(), tokens.begin(), tokens.end());
    }
  };
  std::vector<i32> a, b;
  std::thread first(read_all, std::ref(a)), second(read_all, std::ref(b));
  first.join();
  second.join();
  EXPECT_EQ(a.size(), 2400u);
  EXPECT_EQ(a, b);
}

TEST_F(DataBatches, HoldsLittleMemory) { EXPECT_LT(counting(20000, 10)->memory_bytes(), Bytes{kib}); }

}  // namespace
}  // namespace tidepool
