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
#include "data/make_cache.h"
#include "data/mixture.h"
#include "data/open_documents.h"
#include "data/raw_documents.h"
#include "data/token_cache.h"
#include "data/tokenizer_encoder.h"
#include "io/sudden_end.h"
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

  size_t caches_or_none() const { return fs::exists(dir_ / "cache") ? caches() : 0; }

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
  // Whatever tokens follow from makes another one; what they do not, does not.
  const std::string chat = write(
      "c.jsonl", R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "the plan"}]})");
  const std::string tokenizer = TIDEPOOL_SOURCE_DIR "/tests/golden/tokenizers/qwen.json";
  size_t before = caches();
  const auto expect_new = [&](DataConfig changed, bool anew) {
    const auto data = Dataset::open(changed, 1 << 20, 16, 1, {.cache = dir_ / "cache"});
    ASSERT_TRUE(data) << data.error().message;
    EXPECT_EQ(caches(), before + anew);
    before = caches();
  };
  expect_new({.train = {chat}, .chat_template = "chatml"}, true);
  expect_new({.train = {chat}, .shuffle = false, .chat_template = "chatml"}, false);
  expect_new({.train = {chat}, .records = "messages", .chat_template = "chatml"}, true);
  expect_new({.train = {chat}, .tokenizer = tokenizer, .chat_template = "chatml"}, true);
  expect_new({.train = {chat}, .chat_template = write("t.jinja", "{% for m in messages %}{{ m.content }}.{% endfor %}")}, true);
  expect_new({.train = {chat}, .chat_template = "chatml", .chat_template_arguments = {"a=1"}}, true);
}

TEST_F(DataDocuments, NothingIsLeftOfACacheThatWasNotFinished) {
  write("a.jsonl", "{\"text\": \"good\"}\n{\"text\": 5}\n");
  EXPECT_THAT(fault({.train = {dir_ / "a.jsonl"}}),
              HasSubstr("a.jsonl:2: \"text\" must be text, not a number"));
  EXPECT_EQ(caches(), 0u);
}

// Whoever has the same pid in another container: what is written is locked, whatever the name. Others' keys go too.
TEST_F(DataDocuments, WhatKilledProcessesLeftGoesAndWhatIsWrittenStays) {
  const std::string dead = dir_ / "cache/0123456789abcdef.unfinished-77",
                    empty = dir_ / "cache/0123456789abcde0.unfinished-78", other = dir_ / "cache/notes";
  for (const std::string& path : {dead, empty, other}) fs::create_directories(path);
  write("cache/0123456789abcdef.unfinished-77/tokens.bin", "half");
  write("cache/0123456789abcdef.unfinished-77/documents.bin", "half");
  const std::string directory = dir_ / "cache/0123456789abcdef";
  auto one = TokenCacheWriter::create(directory, "k").value(), two = TokenCacheWriter::create(directory, "k").value();
  remove_unfinished_caches(dir_ / "cache");
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_FALSE(fs::exists(empty));
  EXPECT_EQ(caches(), 3u);  // "notes" and both that are written
  const std::vector<u32> tokens = {1, 2 | learned_bit};
  for (TokenCacheWriter* writer : {one.get(), two.get()}) {
    ASSERT_TRUE(writer->append(tokens));
    ASSERT_TRUE(writer->end_document());
    ASSERT_TRUE(writer->finish());
    remove_unfinished_caches(dir_ / "cache");
  }
  one.reset();
  two.reset();
  EXPECT_EQ(caches(), 2u);
  EXPECT_TRUE(TokenCache::open(directory, "k"));
}

// Ctrl-C while documents are tokenized: no destructor runs then.
TEST_F(DataDocuments, ASuddenEndLeavesNoUnfinishedCache) {
  fs::create_directories(dir_ / "cache");
  const auto writer = TokenCacheWriter::create(dir_ / "cache/0123456789abcdef", "k").value();
  ASSERT_TRUE(writer->append(std::vector<u32>(3'000'000, 1 | learned_bit)));
  EXPECT_EQ(caches(), 1u);
  remove_leftovers();
  EXPECT_EQ(caches(), 0u);
}

// Caches that are there, and runs that go on, must not meet other tokens or rows under the same name. If this
// fails for a good reason: raise encoding_version (make_cache.h), or packing_version (packing.h) where only the
// rows differ, and then change what is expected here.
TEST_F(DataDocuments, OtherTokensOrRowsOfTheSameDocumentsHaveAnotherVersion) {
  std::string text;
  for (int i = 0; i < 30; ++i)
    text += fmt::format(R"({{"messages": [{{"role": "user", "content": "what is {0}?"}}, )"
                        R"({{"role": "assistant", "content": "it is{1} {0}, naturally \u00e9"}}]}})"
                        "\n",
                        i, std::string(static_cast<size_t>(i), '!'));
  DataConfig config{.train = {write("a.jsonl", text)}, .chat_template = "chatml"};
  config.tokenizer = TIDEPOOL_SOURCE_DIR "/tests/golden/tokenizers/qwen.json";
  const auto data = Dataset::open(config, 1 << 20, 64, 1, {.cache = dir_ / "cache"}).value();
  std::string key;
  for (const auto& entry : fs::directory_iterator(dir_ / "cache")) key = entry.path().filename().string();
  const auto cache = TokenCache::open(dir_ / ("cache/" + key), key).value();
  EXPECT_EQ(fmt::format("{} {}", encoding_version, cache->content()), "2 3d6cdc094af851903963b60502be3d4c");
  u64 rows = 0;
  for (u64 i = 0; i < data->train_sequences(); ++i) {
    Row row(64);
    ASSERT_TRUE(data->train_sequence(i, row.arrays()));
    for (u32 t = 0; t < 64; ++t)
      rows = rows * 1'000'003 + static_cast<u64>(row.tokens[t]) * 31 + static_cast<u64>(row.targets[t]) * 7 +
             static_cast<u64>(row.starts[t]);
  }
  EXPECT_EQ(fmt::format("{} {:016x}", packing_version, rows), "2 3840310bd1c6db4f");
}

// A text file is one document: what is known to stay is written while it is read.
TEST_F(DataDocuments, ADocumentLongerThanTheBufferIsWrittenAsItComes) {
  const std::string directory = dir_ / "0123456789abcdef";
  auto writer = TokenCacheWriter::create(directory, "k").value();
  const auto bytes = [&] {
    u64 sum = 0;
    for (const auto& entry : fs::recursive_directory_iterator(dir_ / "."))
      sum += entry.path().filename() == "tokens.bin" ? entry.file_size() : 0;
    return sum;
  };
  const std::vector<u32> unlearned(700'000, 1), learned(700'000, 2 | learned_bit);
  for (const auto& part : {unlearned, unlearned}) ASSERT_TRUE(writer->append(part));
  EXPECT_EQ(bytes(), 0u);  // nothing learned so far: it may be left out
  ASSERT_TRUE(writer->end_document());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(writer->append(learned));
  EXPECT_GE(bytes(), 4 * 2'800'000u);
  ASSERT_TRUE(writer->append(unlearned));
  ASSERT_TRUE(writer->end_document());
  ASSERT_TRUE(writer->append(std::vector<u32>{5, 6 | learned_bit}));
  ASSERT_TRUE(writer->end_document());
  ASSERT_TRUE(writer->finish());
  const auto cache = TokenCache::open(directory, "k").value();
  EXPECT_EQ(cache->counts(), (CacheCounts{2, 4'200'002, 3'500'000, 1}));
  EXPECT_EQ(cache->document(0)->tokens, 4'200'000u);
  EXPECT_EQ(cache->document(0)->learned, 3'499'999u);
  EXPECT_EQ(cache->document(1)->learned, 1u);
  std::vector<u32> read(2);
  ASSERT_TRUE(cache->read(3'499'999, read));
  EXPECT_EQ(read, (std::vector<u32>{2 | learned_bit, 1}));
}

// The README promises 5 %, and a book in one file is one document.
TEST_F(DataDocuments, OfASingleLongDocumentTheLastRowsAreHeldOut) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>('a' + i / 40);
  const auto data = opened({.train = {write("a.jsonl", "{\"text\": \"" + text + "\"}")},
                            .validation_fraction = 0.1, .shuffle = false}, 10);
  EXPECT_EQ(data->train_sequences(), 90u);
  EXPECT_EQ(data->validation_sequences(), 10u);
  EXPECT_THAT(data->notes()[1], HasSubstr("the last 10 rows of one document held out"));
  Row first(10), last(10);
  ASSERT_TRUE(data->validation_sequence(0, first.arrays()));
  EXPECT_EQ(first.tokens[0], text[900]);
  EXPECT_EQ(first.targets[0], text[901]);
  ASSERT_TRUE(data->train_sequence(89, last.arrays()));
  EXPECT_EQ(last.targets[9], text[900]);
  u64 targets = 0;
  for (u64 i = 0; i < 90; ++i) targets += data->train_targets(i);
  EXPECT_EQ(targets, 900u);
  const auto small = opened({.train = {write("b.jsonl", R"({"text": "short"})")}}, 10);
  EXPECT_EQ(small->validation_sequences(), 0u);
  EXPECT_THAT(small->notes()[1], HasSubstr("nothing held out: there is one document, of one row"));
}

TEST_F(DataDocuments, FilesWithoutADocumentAreNamedAndLeaveNoCache) {
  for (const auto& [name, text] : {std::pair{"a.jsonl", ""}, {"b.jsonl", "\n\n"}}) {
    EXPECT_THAT(fault({.train = {write(name, text)}}),
                HasSubstr(std::string(name) + ": there is no document in it; correct data.train"));
    EXPECT_EQ(caches(), 0u);
  }
  EXPECT_THAT(fault({.train = {write("c.jsonl", R"({"text": ""})")}}),
              HasSubstr("c.jsonl: no document has anything to learn (1 have none): a text needs two tokens"));
  EXPECT_EQ(caches(), 0u);
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
  const std::string chat = write("f.jsonl", R"({"messages": [{"role": "assistant", "content": "aa"}]})");
  EXPECT_THAT(fault({.train = {chat}, .chat_template = dir_ / "none.jinja"}),
              AllOf(HasSubstr("none.jinja: cannot open"),
                    HasSubstr("correct data.chat_template, which names a file, or take the built-in one")));
  EXPECT_THAT(fault({.train = {chat}, .chat_template = write("t.jinja", "{{ x | nope }}")}),
              AllOf(HasSubstr("t.jinja:1: the filter 'nope'"), HasSubstr("data.chat_template: chatml")));
  EXPECT_THAT(fault({.train = {jsonl}, .tokenizer = dir_ / "none"}),
              AllOf(HasSubstr("none: cannot open"), HasSubstr("correct data.tokenizer")));
}

// What no record goes through is in nobody's way, and changes no cache.
TEST_F(DataDocuments, AChatTemplateIsOpenedOnlyForChats) {
  const std::string jsonl = letters("a.jsonl", 20, 14);
  const auto plain = opened({.train = {jsonl}});
  EXPECT_TRUE(opened({.train = {jsonl}, .chat_template = write("t.jinja", "{{ x | nope }}")}));
  EXPECT_TRUE(opened({.train = {jsonl}, .chat_template = "chatml"}));
  EXPECT_EQ(caches(), 1u);
}

// Parts of a text through a real tokenizer, on several cores, are the text at once.
TEST_F(DataDocuments, ATextInPartsOnSeveralCoresIsTheTextAtOnce) {
  const std::string tokenizers = TIDEPOOL_SOURCE_DIR "/tests/golden/tokenizers/";
  std::string text;
  for (u32 i = 0; text.size() < 6 * RawDocuments::part_bytes; ++i)
    text += fmt::format("line {}: the quick brown fox's tail, \u4e2d\u6587\n", i * 7919u % 10007u);
  const std::string path = write("a.txt", text);
  const auto pool = create_core_pool(3, Bytes{}).value();
  for (const char* style : {"qwen", "llama2"}) {
    DataConfig config{.train = {path}, .validation_fraction = 0, .shuffle = false};
    config.tokenizer = tokenizers + style + ".json";
    std::vector<i32> got;
    for (CorePool* cores : {static_cast<CorePool*>(nullptr), pool.get()}) {
      fs::remove_all(dir_ / "cache");
      const auto data = Dataset::open(config, 1 << 20, 1024, 1, {.cache = dir_ / "cache", .pool = cores});
      ASSERT_TRUE(data) << data.error().message;
      got.clear();
      for (u64 i = 0; i < (*data)->train_sequences(); ++i) {
        const Row row = train_row(**data, i);
        if (i == 0) got.push_back(row.tokens[0]);
        for (const i32 target : row.targets) {
          if (target != ignored_target) got.push_back(target);
        }
      }
      std::vector<u32> whole;
      const auto encoder = open_tokenizer_encoder(config.tokenizer).value();
      ASSERT_TRUE(encoder->encode(text, Around::special, whole));
      ASSERT_EQ(got, std::vector<i32>(whole.begin(), whole.end())) << style;
    }
  }
}

TEST_F(DataDocuments, ATextIsReadInPartsThatAreCutWhereTheyMayBe) {
  const auto encoder = open_tokenizer_encoder(TIDEPOOL_SOURCE_DIR "/tests/golden/tokenizers/qwen.json").value();
  std::string words, digits(3 * RawDocuments::part_bytes, '7');
  while (words.size() < 5 * RawDocuments::part_bytes) words += "some words here ";
  for (const std::string& text : {words, digits + words, words + digits, std::string("short")}) {
    RawDocuments raw({{write("a.txt", text), false}, {write("b.txt", "other"), false}}, std::nullopt, *encoder);
    std::string all;
    for (bool last = false; !last;) {
      const auto part = raw.next();
      ASSERT_TRUE(part && *part);
      EXPECT_EQ((*part)->first, all.empty());
      last = (*part)->last;
      all += (*part)->content;
      if (text == words) {
        EXPECT_LE((*part)->content.size(), RawDocuments::part_bytes);
      }
    }
    EXPECT_EQ(all, text);
    EXPECT_EQ((*raw.next())->content, "other");
    EXPECT_FALSE(raw.next()->has_value());
  }
}

TEST_F(DataDocuments, TheFirstDocumentsAreShownAsTrainingHasThem) {
  const std::string tokenizers = TIDEPOOL_SOURCE_DIR "/tests/golden/tokenizers/";
  std::string text;
  while (text.size() < 5 * RawDocuments::part_bytes) text += "some words here ";
  DataConfig config{.train = {write("a.txt", text), write("c.jsonl", R"({"prompt": "one two", "completion": " three \u4e2d"})")}};
  config.tokenizer = tokenizers + "llama2.json";
  const auto sources = all_sources(config, true).value();
  const auto shown = first_documents(sources, config, 1 << 20, "", 3).value();
  ASSERT_EQ(shown.size(), 2u);  // not three parts of the first
  EXPECT_THAT(shown[0].place, HasSubstr("a.txt (its beginning)"));
  ASSERT_EQ(shown[1].runs.size(), 2u);
  EXPECT_THAT(shown[1].runs[0].text, testing::EndsWith("one two"));
  EXPECT_EQ(shown[1].runs[1].text, " three \u4e2d");  // its space too
  EXPECT_EQ(caches_or_none(), 0u);
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
