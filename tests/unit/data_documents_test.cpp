// Documents from files to rows: with bytes as tokens, so that what is expected can be read.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "data/answer_tokens.h"
#include "data/batch_source.h"
#include "data/document_dataset.h"
#include "data/mixture.h"
#include "data/token_cache.h"
#include "tests/support/disk_fixture.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DataDocuments : public testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view text) {
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return dir_ / name;
  }
  // Documents "aaa", "bbbbb" ...: a letter says which one a token is of.
  std::string letters(const std::string& name, u32 documents, u32 longest) {
    std::string text;
    for (u32 i = 0; i < documents; ++i)
      text += "{\"text\": \"" +
              std::string(2 + i * 7 % (longest - 1),
                          static_cast<char>(i % 52 < 26 ? 'A' + i % 26 : 'a' + i % 26)) +
              "\"}\n";
    return write(name, text);
  }
  Result<std::unique_ptr<Dataset>> open(DataConfig config, u32 length = 16, u64 seed = 1) {
    return Dataset::open(config, 256, length, seed, {.cache = dir_ / "cache"});
  }
  std::unique_ptr<Dataset> opened(DataConfig config, u32 length = 16, u64 seed = 1) {
    auto data = open(config, length, seed);
    EXPECT_TRUE(data) << data.error().message;
    return data ? std::move(*data) : nullptr;
  }
  std::string fault(DataConfig config) {
    const auto data = open(config);
    if (data) return "it was taken";
    EXPECT_EQ(data.error().kind, ErrorKind::bad_input) << data.error().message;
    return data.error().message;
  }
  size_t caches() const {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(dir_ / "cache")) count += entry.is_directory();
    return count;
  }

  struct Row {
    explicit Row(u32 length) : tokens(length, -7), targets(length, -7), starts(length, -7) {}
    BatchArrays arrays() { return {tokens, targets, starts}; }
    std::vector<i32> tokens, targets, starts;
    bool operator==(const Row&) const = default;
  };
  static Row train_row(const Dataset& data, u64 index) {
    Row row(data.sequence_length());
    const auto read = data.train_sequence(index, row.arrays());
    EXPECT_TRUE(read) << read.error().message;
    return row;
  }

  test::ScratchDir dir_;
};

TEST_F(DataDocuments, RowsHoldEveryDocumentOnceAndAttentionStaysWithinEach) {
  const auto data = opened({.train = {letters("a.jsonl", 40, 14)}, .validation_fraction = 0});
  u64 seen = 0;
  for (u64 i = 0; i < data->train_sequences(); ++i) {
    const Row row = train_row(*data, i);
    u32 targets = 0;
    for (u32 t = 0; t < 16; ++t) {
      ASSERT_LE(row.starts[t], static_cast<i32>(t));
      ASSERT_EQ(row.starts[row.starts[t]], row.starts[t]);  // a document begins where its tokens say
      if (row.targets[t] == ignored_target) continue;
      EXPECT_EQ(row.targets[t], row.tokens[t]);  // of the same document
      EXPECT_EQ(row.tokens[row.starts[t]], row.tokens[t]);
      ++targets;
    }
    EXPECT_EQ(targets, data->train_targets(i));
    EXPECT_GT(targets, 0u);
    seen += targets;
  }
  u64 expected = 0;
  for (u32 i = 0; i < 40; ++i) expected += 1 + i * 7 % 13;
  EXPECT_EQ(seen, expected);
  EXPECT_LE(data->train_sequences(), expected / 16 + 3);  // packed tightly
  EXPECT_EQ(data->tokens(), expected + 40);
}

TEST_F(DataDocuments, WithoutPackingARowIsADocument) {
  const auto data = opened(
      {.train = {letters("a.jsonl", 10, 14)}, .validation_fraction = 0, .shuffle = false, .packing = false});
  ASSERT_EQ(data->train_sequences(), 10u);
  const Row row = train_row(*data, 3);
  EXPECT_EQ(row.tokens[0], 'D');
  EXPECT_EQ(data->train_targets(3), 1u + 3 * 7 % 13);
}

TEST_F(DataDocuments, LongDocumentsAreCutAndPositionsBeginAnew) {
  const std::string text = "{\"text\": \"abcdefghijklmnopqrstuvwxyz\"}";
  const auto data =
      opened({.train = {write("a.jsonl", text)}, .validation_fraction = 0, .shuffle = false}, 10);
  ASSERT_EQ(data->train_sequences(), 3u);
  std::string tokens, targets;
  for (u64 i = 0; i < 3; ++i) {
    const Row row = train_row(*data, i);
    EXPECT_EQ(row.starts[0], 0);
    for (u32 t = 0; t < 10 && row.targets[t] != ignored_target; ++t) {
      EXPECT_EQ(row.starts[t], 0);
      tokens += static_cast<char>(row.tokens[t]);
      targets += static_cast<char>(row.targets[t]);
    }
  }
  EXPECT_EQ(tokens, "abcdefghijklmnopqrstuvwxy");
  EXPECT_EQ(targets, "bcdefghijklmnopqrstuvwxyz");
}

TEST_F(DataDocuments, OnlyAnswersAreLearned) {
  const std::string chat =
      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]})";
  const auto learned = [&](DataConfig config) {
    config.validation_fraction = 0;
    config.chat_template = "chatml";
    const auto data = opened(config, 200);
    const Row row = train_row(*data, 0);
    std::string out;
    for (const i32 target : row.targets) {
      if (target != ignored_target) out += static_cast<char>(target);
    }
    return out;
  };
  EXPECT_EQ(learned({.train = {write("c.jsonl", chat)}}), "ho<|im_end|>\n");
  EXPECT_EQ(learned({.train = {write("c.jsonl", chat)}, .loss = "all"}),
            "|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nho<|im_end|>\n");
  EXPECT_EQ(learned({.train = {write("p.jsonl", R"({"prompt": "1+1=", "completion": "2."})")}}), "2.");
  EXPECT_EQ(
      learned({.train = {write("p.jsonl", R"({"prompt": "1+1=", "completion": "2."})")}, .loss = "all"}),
      "+1=2.");
  EXPECT_EQ(learned({.train = {write("i.jsonl", R"({"instruction": "do", "output": "done"})")}}),
            "done<|im_end|>\n");
  EXPECT_EQ(
      learned({.train = {write("t.jsonl", R"({"input_ids": [65, 66, 67], "labels": [-100, -100, 67]})")}}),
      "C");
}

TEST_F(DataDocuments, HeldOutDocumentsAreNeverTrainedOnWhateverTheSeed) {
  DataConfig config{.train = {letters("a.jsonl", 50, 14)}, .validation_fraction = 0.2};
  const auto letters_of = [&](const Dataset& data, bool train) {
    std::multiset<i32> out;
    for (u64 i = 0; i < (train ? data.train_sequences() : data.validation_sequences()); ++i) {
      Row row(16);
      EXPECT_TRUE(train ? data.train_sequence(i, row.arrays()) : data.validation_sequence(i, row.arrays()));
      for (u32 t = 0; t < 16; ++t) {
        if (row.targets[t] != ignored_target) out.insert(row.targets[t]);
      }
    }
    return out;
  };
  const auto one = opened(config, 16, 1), two = opened(config, 16, 2);
  const auto train = letters_of(*one, true), held = letters_of(*one, false);
  for (const i32 letter : held) EXPECT_FALSE(train.contains(letter)) << static_cast<char>(letter);
  EXPECT_EQ(std::set<i32>(held.begin(), held.end()).size(), 10u);
  EXPECT_EQ(letters_of(*two, false), held);
  EXPECT_EQ(letters_of(*two, true), train);
  EXPECT_NE(one->fingerprint(), two->fingerprint());
  const auto order = [&](const Dataset& data) {
    std::vector<std::vector<i32>> rows;
    for (u64 i = 0; i < data.train_sequences(); ++i) rows.push_back(train_row(data, i).tokens);
    return rows;
  };
  EXPECT_NE(order(*one), order(*two));
}

TEST_F(DataDocuments, ACacheIsMadeOnceAndAnewWhenAnythingChanges) {
  const std::string path = letters("a.jsonl", 20, 14);
  DataConfig config{.train = {path}};
  const auto first = opened(config);
  EXPECT_THAT(first->notes()[0], HasSubstr("tokenized into"));
  const auto again = opened(config);
  EXPECT_THAT(again->notes()[0], HasSubstr("found in"));
  EXPECT_EQ(again->fingerprint(), first->fingerprint());
  EXPECT_EQ(caches(), 1u);
  config.loss = "all";
  EXPECT_TRUE(opened(config));
  EXPECT_EQ(caches(), 2u);
  letters("a.jsonl", 21, 14);
  const auto other = opened(config);
  EXPECT_EQ(caches(), 3u);
  EXPECT_NE(other->fingerprint(), first->fingerprint());
}

TEST_F(DataDocuments, NothingIsLeftOfACacheThatWasNotFinished) {
  write("a.jsonl", "{\"text\": \"good\"}\n{\"text\": 5}\n");
  EXPECT_THAT(fault({.train = {dir_ / "a.jsonl"}}),
              HasSubstr("a.jsonl:2: \"text\" must be text, not a number"));
  EXPECT_EQ(caches(), 0u);
  // One that a killed process left behind goes when the next is made; that of a living one stays.
  const std::string dead = dir_ / "cache/0123456789abcdef.unfinished-999999999",
                    living = fmt::format("{}{}", dir_ / "cache/0123456789abcdef.unfinished-", ::getppid());
  fs::create_directories(dead);
  fs::create_directories(living);
  remove_unfinished_caches(dir_ / "cache/0123456789abcdef");
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(living));
}

TEST_F(DataDocuments, DamagedCachesAreRefusedWithAWayOut) {
  DataConfig config{.train = {letters("a.jsonl", 20, 14)}};
  ASSERT_TRUE(opened(config));
  fs::path cache;
  for (const auto& entry : fs::directory_iterator(dir_ / "cache")) cache = entry.path();
  const auto spoil = [&](const char* name, auto&& change) {
    std::ifstream in(cache / name, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    std::string other = bytes;
    change(other);
    std::ofstream(cache / name, std::ios::binary) << other;
    const std::string message = fault(config);
    std::ofstream(cache / name, std::ios::binary) << bytes;
    EXPECT_THAT(message, HasSubstr(name));
    return message;
  };
  const auto replace = [](const char* from, const char* to) {
    return [=](std::string& s) { s.replace(s.find(from), strlen(from), to); };
  };
  EXPECT_THAT(spoil("about.json", [](std::string& s) { s = "{"; }), HasSubstr("not valid JSON"));
  EXPECT_THAT(spoil("about.json", [](std::string& s) { s = "[]"; }), HasSubstr("is no JSON object"));
  EXPECT_THAT(spoil("about.json", replace("\"version\": 1", "\"version\": 9")),
              HasSubstr("is of version 9, and this program reads 1"));
  EXPECT_THAT(spoil("about.json", replace("\"key\": \"", "\"key\": \"x")),
              HasSubstr("was made of something else"));
  EXPECT_THAT(spoil("about.json", replace("\"documents\": 20", "\"documents\": -1")),
              HasSubstr("\"documents\" is no count"));
  EXPECT_THAT(spoil("about.json", replace("\"documents\": 20", "\"documents\": 99999")),
              HasSubstr("its counts cannot be"));
  EXPECT_THAT(spoil("about.json", replace("\"xxh3\"", "\"xxh4\"")), HasSubstr("\"xxh3\" is no text"));
  EXPECT_THAT(spoil("tokens.bin", [](std::string& s) { s.resize(s.size() - 4); }),
              HasSubstr("and about.json says"));
  EXPECT_THAT(spoil("documents.bin", [](std::string& s) { s += "xxxx"; }), HasSubstr("and about.json says"));
  EXPECT_THAT(spoil("documents.bin", [](std::string& s) { s[7] = 1; }), HasSubstr("goes from token"));
  const std::string advice =
      spoil("documents.bin", [](std::string& s) { std::fill(s.begin(), s.end(), '\0'); });
  EXPECT_THAT(advice, HasSubstr("remove " + cache.string() + " to have it made again"));
  ASSERT_TRUE(opened(config));
  // A token that the vocabulary has not is found when it is read.
  std::fstream(cache / "tokens.bin", std::ios::in | std::ios::out | std::ios::binary)
      .write("\xff\xff\xff\x0f", 4);
  const auto data = opened({.train = config.train, .validation_fraction = 0, .shuffle = false});
  Row row(16);
  const auto read = data->train_sequence(0, row.arrays());
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message,
              HasSubstr("tokens.bin: token 0 is 268435455, but the model's vocabulary has 256"));
}

TEST_F(DataDocuments, WhatCannotBeTrainedOnIsRefused) {
  const std::string jsonl = letters("a.jsonl", 3, 5),
                    text = write("b.txt", "plain text that is long enough for a row of it");
  EXPECT_THAT(fault({.train = {jsonl, text}}), HasSubstr("one run takes the one or the other"));
  EXPECT_THAT(fault({.train = {text}, .weights = {1}}), HasSubstr("data.weights mixes documents only"));
  EXPECT_THAT(fault({.train = {write("c.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})")}}),
              HasSubstr("a chat needs a chat template"));
  EXPECT_THAT(fault({.train = {write("c.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})")},
                     .chat_template = "chatml"}),
              HasSubstr("no document has anything to learn (1 have none)"));
  EXPECT_THAT(fault({.train = {write("d.jsonl", R"({"input_ids": [1, 300]})")}}),
              HasSubstr("token 1 of the document is 300, but the model's vocabulary has 256"));
  EXPECT_THAT(fault({.train = {write("e.jsonl", "{\"text\": \"a\"}\n{\"prompt\": \"a\"}\n")}}),
              HasSubstr("e.jsonl:2: this is no text record"));
  EXPECT_THAT(fault({.train = {jsonl}, .chat_template = dir_ / "none.jinja"}),
              HasSubstr("none.jinja: cannot open"));
  EXPECT_THAT(fault({.train = {jsonl}, .chat_template = write("t.jinja", "{{ x | nope }}")}),
              HasSubstr("t.jinja:1: the filter 'nope'"));
  EXPECT_THAT(fault({.train = {write("empty.jsonl", "\n\n")}}),
              HasSubstr("empty.jsonl: holds no document"));
}

TEST_F(DataDocuments, BatchesAreAFunctionOfTheStep) {
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

TEST_F(DataDocuments, SourcesAreMixedByWeight) {
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

}  // namespace
}  // namespace tidepool
