// Caches of tokenized documents: made once, remade when necessary, and never left half done.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>

#include "base/text/seal.h"
#include "data/batches/make_cache.h"
#include "data/batches/packing.h"
#include "data/batches/token_cache.h"
#include "data/documents/answer_tokens.h"
#include "data/files/block_file.h"
#include "io/sudden_end.h"
#include "tests/support/document_files.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"

namespace tidepool::caches_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DataCaches : public test::DocumentsFixture {};

TEST_F(DataCaches, ACacheIsMadeOnceAndAgainAfterAnyChange) {
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
  // A change that affects tokens makes another cache; a change that does not, does not.
  const std::string chat = write(
      "c.jsonl",
      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "the plan"}]})");
  const std::string tokenizer = source_file("tests/golden/tokenizers/qwen.json");
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
  expect_new({.train = {chat},
              .chat_template = write("t.jinja", "{% for m in messages %}{{ m.content }}.{% endfor %}")},
             true);
  expect_new({.train = {chat}, .chat_template = "chatml", .chat_template_arguments = {"a=1"}}, true);
}

TEST_F(DataCaches, AnUnfinishedCacheLeavesNothing) {
  write("a.jsonl", "{\"text\": \"good\"}\n{\"text\": 5}\n");
  EXPECT_THAT(fault({.train = {dir_ / "a.jsonl"}}),
              HasSubstr("a.jsonl:2: \"text\" must be text, not a number"));
  EXPECT_EQ(caches(), 0u);
}

// A process in another container may have the same pid: a cache being written is locked, whatever its name.
// Leftovers of other keys are removed too.
TEST_F(DataCaches, LitterOfKilledProcessesIsRemovedAndLiveFilesStay) {
  const std::string dead = dir_ / "cache/0123456789abcdef.unfinished-77",
                    empty = dir_ / "cache/0123456789abcde0.unfinished-78", other = dir_ / "cache/notes";
  for (const std::string& path : {dead, empty, other}) fs::create_directories(path);
  write("cache/0123456789abcdef.unfinished-77/tokens.bin", "half");
  write("cache/0123456789abcdef.unfinished-77/documents.bin", "half");
  const std::string directory = dir_ / "cache/0123456789abcdef";
  auto one = TokenCacheWriter::create(directory, "k").value(),
       two = TokenCacheWriter::create(directory, "k").value();
  remove_unfinished_caches(dir_ / "cache");
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_FALSE(fs::exists(empty));
  EXPECT_EQ(caches(), 3u);  // "notes" and both caches being written
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

// Ctrl-C while documents are tokenized: no destructor runs.
TEST_F(DataCaches, ASuddenEndLeavesNoUnfinishedCache) {
  fs::create_directories(dir_ / "cache");
  const auto writer = TokenCacheWriter::create(dir_ / "cache/0123456789abcdef", "k").value();
  ASSERT_TRUE(writer->append(std::vector<u32>(3'000'000, 1 | learned_bit)));
  EXPECT_EQ(caches(), 1u);
  remove_leftovers();
  EXPECT_EQ(caches(), 0u);
}

// Existing caches and resumed runs must not get other tokens or rows under the same name. If this fails for a
// good reason: raise encoding_version (make_cache.h), or packing_version (packing.h) if only rows differ, and
// then change the expected values here.
TEST_F(DataCaches, OtherTokensOrRowsOfTheSameDocumentsHaveAnotherVersion) {
  std::string text;
  for (int i = 0; i < 30; ++i)
    text += fmt::format(R"({{"messages": [{{"role": "user", "content": "what is {0}?"}}, )"
                        R"({{"role": "assistant", "content": "it is{1} {0}, naturally \u00e9"}}]}})"
                        "\n",
                        i, std::string(static_cast<size_t>(i), '!'));
  DataConfig config{.train = {write("a.jsonl", text)}, .chat_template = "chatml"};
  config.tokenizer = source_file("tests/golden/tokenizers/qwen.json");
  const auto data = Dataset::open(config, 1 << 20, 64, 1, {.cache = dir_ / "cache"}).value();
  std::string key;
  for (const auto& entry : fs::directory_iterator(dir_ / "cache")) key = entry.path().filename().string();
  const auto cache = TokenCache::open(dir_ / ("cache/" + key), key).value();
  EXPECT_EQ(fmt::format("{} {}", encoding_version, cache->content()), "5 3d6cdc094af851903963b60502be3d4c");
  u64 rows = 0;
  for (u64 i = 0; i < data->train_sequences(); ++i) {
    Row row(64);
    ASSERT_TRUE(data->train_sequence(i, row.arrays()));
    for (u32 t = 0; t < 64; ++t) {
      const i32 target = has_loss(row.targets[t]) ? row.targets[t] : ignored_target;
      rows = rows * 1'000'003 + static_cast<u64>(row.tokens[t]) * 31 + static_cast<u64>(target) * 7 +
             static_cast<u64>(row.starts[t]);
    }
  }
  EXPECT_EQ(fmt::format("{} {:016x}", packing_version, rows), "2 3840310bd1c6db4f");
}

// A text file is one document: tokens that are certain to be kept are written while the file is read.
TEST_F(DataCaches, ADocumentLongerThanTheBufferIsWrittenAsItComes) {
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
  EXPECT_EQ(bytes(), 0u);  // nothing is learned so far: the document may be left out
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

TEST_F(DataCaches, FilesWithoutADocumentAreNamedAndLeaveNoCache) {
  for (const auto& [name, text] : {std::pair{"a.jsonl", ""}, {"b.jsonl", "\n\n"}}) {
    EXPECT_THAT(fault({.train = {write(name, text)}}),
                HasSubstr(std::string(name) + ": holds no document; name files that hold documents"));
    EXPECT_EQ(caches(), 0u);
  }
  EXPECT_THAT(fault({.train = {write("c.jsonl", R"({"text": ""})")}}),
              HasSubstr("c.jsonl: no document has anything to learn (1 have none): a text needs two tokens"));
  EXPECT_EQ(caches(), 0u);
}

TEST_F(DataCaches, DamagedCachesAreRefusedWithAWayOut) {
  DataConfig config{.train = {letters("a.jsonl", 20, 14)}};
  ASSERT_TRUE(opened(config));
  fs::path cache;
  for (const auto& entry : fs::directory_iterator(dir_ / "cache")) cache = entry.path();
  const auto spoil = [&](const char* name, auto&& change) {
    const std::string bytes = test::file_text(cache / name);
    std::string other = bytes;
    change(other);
    std::ofstream(cache / name, std::ios::binary) << other;
    const std::string message = fault(config);
    std::ofstream(cache / name, std::ios::binary) << bytes;
    EXPECT_THAT(message, HasSubstr(name));
    return message;
  };
  // Sealed again: the content is wrong but not damaged, and is found all the same.
  const auto replace = [](const char* from, const char* to) {
    return [=](std::string& s) {
      s.replace(s.find(from), strlen(from), to);
      s = sealed(s.substr(0, s.find("  \"xxh3_of_the_lines_above\"")));
    };
  };
  EXPECT_THAT(spoil("about.json", [](std::string& s) { s = "{"; }), HasSubstr("not valid JSON"));
  EXPECT_THAT(spoil("about.json", [](std::string& s) { s = "[]"; }), HasSubstr("is not a JSON object"));
  EXPECT_THAT(spoil("about.json", replace("\"version\": 2", "\"version\": 9")),
              HasSubstr("has version 9, but this program reads 2"));
  EXPECT_THAT(spoil("about.json", replace("\"key\": \"", "\"key\": \"x")),
              HasSubstr("was made from other files"));
  EXPECT_THAT(spoil("about.json", replace("\"documents\": 20", "\"documents\": -1")),
              HasSubstr("\"documents\" is not a count"));
  EXPECT_THAT(spoil("about.json", replace("\"documents\": 20", "\"documents\": 99999")),
              HasSubstr("its counts are impossible"));
  EXPECT_THAT(spoil("about.json", replace("\"xxh3\"", "\"xxh4\"")), HasSubstr("\"xxh3\" is not text"));
  EXPECT_THAT(spoil("tokens.bin", [](std::string& s) { s.resize(s.size() - 4); }),
              HasSubstr("but about.json says"));
  EXPECT_THAT(spoil("documents.bin", [](std::string& s) { s += "xxxx"; }), HasSubstr("but about.json says"));
  EXPECT_THAT(spoil("documents.bin", [](std::string& s) { s[0] ^= 1; }),
              HasSubstr("documents.bin: block 0 (4096 bytes from byte 0) does not match its checksum"));
  EXPECT_THAT(spoil("about.json", [](std::string& s) { s[s.find("20")] ^= 1; }),
              HasSubstr("does not match its own checksum"));
  EXPECT_THAT(spoil("about.json", replace("\"xxh3\": \"", "\"xxh3\": \"0")),
              HasSubstr("is not two checksums"));
  const std::string advice =
      spoil("documents.bin", [](std::string& s) { std::fill(s.begin(), s.end(), '\0'); });
  EXPECT_THAT(advice, HasSubstr("remove " + cache.string() + " to have it made again"));
  ASSERT_TRUE(opened(config));
}

// A bit of tokens.bin that flips between reads is found by the first read of its block, and other
// blocks are not affected.
TEST_F(DataCaches, TokensAreVerifiedBlockByBlockAsTheyAreRead) {
  constexpr u64 tokens = 5000, in_block = block_content_bytes / sizeof(u32);  // 4.9 blocks
  const std::string directory = dir_ / "0123456789abcdef", path = directory + "/tokens.bin";
  auto writer = TokenCacheWriter::create(directory, "k").value();
  std::vector<u32> all(tokens);
  for (u32 i = 0; i < tokens; ++i) all[i] = i | learned_bit;
  for (u64 at = 0; at < tokens; at += 700)  // pieces that end inside blocks
    ASSERT_TRUE(writer->append(std::span(all).subspan(at, std::min<u64>(700, tokens - at))));
  ASSERT_TRUE(writer->end_document());
  ASSERT_TRUE(writer->finish());
  ASSERT_EQ(fs::file_size(path), 5 * block_bytes);
  const auto cache = TokenCache::open(directory, "k").value();
  const auto read = [&](u64 first, u64 count) {
    std::vector<u32> out(count);
    const Result<void> done = cache->read(first, out);
    if (!done) return done.error().message;
    EXPECT_TRUE(std::ranges::equal(out, std::span(all).subspan(first, count))) << first << " " << count;
    return std::string();
  };
  EXPECT_EQ(read(0, tokens), "");
  EXPECT_EQ(read(in_block - 1, 3), "");
  const std::string whole = test::file_text(path);
  for (u64 at = 0; at < whole.size(); at += 61) {  // hashes, tokens and the padding of the last block
    std::string other = whole;
    other[at] = static_cast<char>(other[at] ^ (1 << at % 8));
    std::ofstream(path, std::ios::binary) << other;
    const u64 block = at / block_bytes;
    EXPECT_THAT(
        read(std::min(block * in_block, tokens - 1), 1),
        AllOf(HasSubstr(fmt::format("tokens.bin: block {} ", block)), HasSubstr("was changed or damaged"),
              HasSubstr("remove " + directory + " to have it made again")));
    EXPECT_EQ(read(block == 0 ? in_block : 0, 100), "");
  }
  // Two swapped blocks are intact, but in the wrong place.
  std::ofstream(path, std::ios::binary) << whole.substr(block_bytes, block_bytes)
                                        << whole.substr(0, block_bytes) << whole.substr(2 * block_bytes);
  EXPECT_THAT(read(0, 1), HasSubstr("block 0 "));
}

TEST_F(DataCaches, ACacheOfAnOlderFormatIsMadeAgainWithANote) {
  DataConfig config{.train = {letters("a.jsonl", 20, 14)}};
  const auto before = opened(config);
  fs::path cache;
  for (const auto& entry : fs::directory_iterator(dir_ / "cache")) cache = entry.path();
  std::ofstream(cache / "about.json") << R"({"version": 1, "key": "k"})";
  const auto after = opened(config);
  EXPECT_THAT(after->notes()[0], HasSubstr("has an older format: tokenized again into"));
  EXPECT_EQ(after->fingerprint(), before->fingerprint());
  EXPECT_EQ(caches(), 1u);
}

// A token outside the vocabulary is found when it is read.
TEST_F(DataCaches, TokensBeyondTheVocabularyAreRefused) {
  const std::string path = letters("a.jsonl", 20, 14);
  const auto data = open({.train = {path}, .validation_fraction = 0, .shuffle = false}).value();
  fs::path cache;
  for (const auto& entry : fs::directory_iterator(dir_ / "cache")) cache = entry.path();
  const u64 bytes = fs::file_size(cache / "tokens.bin");
  ASSERT_EQ(bytes, block_bytes);
  std::vector<u32> tokens(block_content_bytes / sizeof(u32), 0x0fff'ffff);
  std::vector<std::byte> blocks;
  BlockEncoder().append(std::as_bytes(std::span(tokens)), blocks);
  std::ofstream(cache / "tokens.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(blocks.data()), static_cast<std::streamsize>(blocks.size()));
  Row row(16);
  const auto read = data->train_sequence(0, row.arrays());
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message,
              HasSubstr("tokens.bin: token 0 is 268435455, but the model's vocabulary has 256"));
}

}  // namespace tidepool::caches_test
