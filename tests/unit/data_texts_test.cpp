// Text files as documents: read in parts, encoded on several cores, and shown as training has them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "data/answer_tokens.h"
#include "data/open_documents.h"
#include "data/raw_documents.h"
#include "data/tokenizer_encoder.h"
#include "tests/support/document_files.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DataTexts : public test::DocumentsFixture {};

// Parts of a text through a real tokenizer, on several cores, are the text at once.
TEST_F(DataTexts, ATextInPartsOnSeveralCoresIsTheTextAtOnce) {
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

TEST_F(DataTexts, ATextIsReadInPartsThatAreCutWhereTheyMayBe) {
  const auto encoder =
      open_tokenizer_encoder(TIDEPOOL_SOURCE_DIR "/tests/golden/tokenizers/qwen.json").value();
  std::string words, digits(3 * RawDocuments::part_bytes, '7');
  while (words.size() < 5 * RawDocuments::part_bytes) words += "some words here ";
  for (const std::string& text : {words, digits + words, words + digits, std::string("short")}) {
    RawDocuments raw({{write("a.txt", text), false}, {write("b.txt", "other"), false}}, std::nullopt,
                     *encoder);
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

TEST_F(DataTexts, TheFirstDocumentsAreShownAsTrainingHasThem) {
  const std::string tokenizers = TIDEPOOL_SOURCE_DIR "/tests/golden/tokenizers/";
  std::string text;
  while (text.size() < 5 * RawDocuments::part_bytes) text += "some words here ";
  DataConfig config{.train = {write("a.txt", text),
                              write("c.jsonl", R"({"prompt": "one two", "completion": " three \u4e2d"})")}};
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

}  // namespace
}  // namespace tidepool
