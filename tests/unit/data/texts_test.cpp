// Text files as documents: read in parts, encoded on several cores, and shown as in training.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <optional>
#include <string>

#include "data/batches/open_documents.h"
#include "data/documents/answer_tokens.h"
#include "data/documents/raw_documents.h"
#include "data/documents/tokenizer_encoder.h"
#include "tests/support/document_files.h"
#include "tests/support/model_directory.h"
#include "tests/support/places.h"

namespace tidepool::texts_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class DataTexts : public test::DocumentsFixture {};

// Encoding parts of a text with a real tokenizer, on several cores, gives the ids of the whole text.
TEST_F(DataTexts, ATextTokenizedInPartsGivesTheSameIds) {
  const std::string tokenizers = source_file("tests/golden/tokenizers/");
  std::string text;
  for (u32 i = 0; text.size() < 6 * DocumentReader::part_bytes; ++i)
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
          if (has_loss(target)) got.push_back(target);
        }
      }
      std::vector<u32> whole;
      const auto encoder = open_tokenizer_encoder(config.tokenizer).value();
      ASSERT_TRUE(encoder->encode(text, Around::special, whole));
      ASSERT_EQ(got, std::vector<i32>(whole.begin(), whole.end())) << style;
    }
  }
}

// llama2.json adds <s> (1) before a text, qwen.json adds nothing.
struct FrameCase {
  const char* style;
  const char* tokenizer_class;
  std::optional<bool> bos, eos;
  const char* refusal;  // empty: behaves as tokenizer.json says
};
const auto frame_cases = std::to_array<FrameCase>({
    {"llama2", "LlamaTokenizerFast", true, false, ""},
    {"llama2", "LlamaTokenizer", std::nullopt, false, ""},
    {"llama2", "LlamaTokenizer", std::nullopt, std::nullopt, ""},
    {"llama2", "LlamaTokenizerFast", false, std::nullopt, "put the ids [] before a text and [] behind it"},
    {"llama2", "LlamaTokenizerFast", true, true, "put the ids [1] before a text and [2] behind it"},
    {"llama2", "PreTrainedTokenizerFast", false, false, ""},
    {"llama2", "GPTNeoXTokenizerFast", std::nullopt, false, "put the ids [] before"},
    {"qwen", "LlamaTokenizerFast", true, false, "put the ids [1201] before"},
    {"qwen", "LlamaTokenizerFast", false, false, ""},
    {"qwen", "LlamaTokenizerFast", std::nullopt, std::nullopt, ""},
    {"qwen", "Qwen2TokenizerFast", true, true, ""},
    {"qwen", "", true, true, ""},
});

TEST_F(DataTexts, FlagsThatContradictTheTokenizerAreRefusedForTexts) {
  const std::string tokenizers = source_file("tests/golden/tokenizers/");
  for (const FrameCase& c : frame_cases) {
    const bool llama = c.style == std::string("llama2");
    TokenizerConfig beside;
    beside.special_tokens = {{"bos_token", llama ? "<s>" : "<|im_start|>"},
                             {"eos_token", llama ? "</s>" : "<|im_end|>"}};
    beside.frame = {"dir/tokenizer_config.json", c.tokenizer_class, c.bos, c.eos, std::nullopt};
    const auto encoder = open_tokenizer_encoder(tokenizers + c.style + ".json", beside).value();
    SCOPED_TRACE(fmt::format("{} {}", c.style, c.tokenizer_class));
    std::vector<u32> plain, framed;
    EXPECT_TRUE(encoder->encode("x", Around::nothing, plain));
    const Result<void> done = encoder->encode("x", Around::special, framed);
    ASSERT_EQ(done.has_value(), c.refusal[0] == '\0');
    if (done) {
      if (llama) plain.insert(plain.begin(), 1);
      EXPECT_EQ(framed, plain);
      continue;
    }
    EXPECT_THAT(done.error().message,
                AllOf(HasSubstr("dir/tokenizer_config.json"), HasSubstr(c.refusal),
                      HasSubstr(fmt::format("{}.json puts {}", c.style, llama ? "[1] and []" : "[] and []")),
                      HasSubstr("remove the two flags")));
  }
}

// Version 5 of transformers gives [eos, "a"]; the file and version 4 give [eos, "\u2581a"].
TEST_F(DataTexts, NotesChatsThatVersion5TokenizesDifferently) {
  const std::string tokenizers = source_file("tests/golden/tokenizers/");
  const auto note = [&](const std::string& style, const char* name, std::optional<bool> legacy) {
    const std::string file = tokenizers + style + ".json";
    TokenizerConfig beside;
    beside.special_tokens = {{"eos_token", style == "qwen" ? "<|im_end|>" : "</s>"}};
    beside.frame = {.file = "dir/tokenizer_config.json", .tokenizer_class = name, .legacy = legacy};
    return note_of_other_ids(*open_tokenizer_encoder(file, beside).value(), file, beside).value_or("");
  };
  for (const auto legacy : {std::optional<bool>(), std::optional(false)})
    EXPECT_THAT(note("llama2", "LlamaTokenizerFast", legacy),
                AllOf(HasSubstr("llama2.json puts a space behind every special token"),
                      HasSubstr("dir/tokenizer_config.json"), HasSubstr("data.tokenizer")));
  EXPECT_EQ(note("llama2", "LlamaTokenizer", true), "");
  EXPECT_EQ(note("llama2", "PreTrainedTokenizerFast", false), "");
  EXPECT_EQ(note("qwen", "LlamaTokenizerFast", false), "");
}

TEST_F(DataTexts, FlagsOfTheModelDirectoryAreRead) {
  const std::string model = dir_ / "model";
  fs::create_directory(model);
  test::write_byte_tokenizer(model);
  const std::string texts = write("t.jsonl", "{\"text\": \"abc\"}\n");
  const auto refusal = [&](const std::string& flags) {
    write("model/tokenizer_config.json",
          R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>")" + flags + "}");
    fs::remove_all(dir_ / "cache");
    const auto data = Dataset::open({.train = {texts}, .validation_fraction = 0}, 300, 8, 1,
                                    {.cache = dir_ / "cache", .model_directory = model});
    return data ? "" : data.error().message;
  };
  EXPECT_EQ(refusal(""), "");
  EXPECT_THAT(refusal(R"(, "tokenizer_class": "LlamaTokenizerFast", "add_bos_token": true)"),
              AllOf(HasSubstr("t.jsonl:1"), HasSubstr("model/tokenizer_config.json"), HasSubstr("[256]"),
                    HasSubstr("model/tokenizer.json")));
  EXPECT_EQ(refusal(R"(, "tokenizer_class": "LlamaTokenizerFast", "add_bos_token": false)"), "");
  EXPECT_THAT(refusal(R"(, "add_bos_token": 1)"), HasSubstr("add_bos_token must be true or false"));
}

TEST_F(DataTexts, ATextIsCutOnlyAtAllowedPlaces) {
  const auto encoder = open_tokenizer_encoder(source_file("tests/golden/tokenizers/qwen.json")).value();
  std::string words, digits(3 * DocumentReader::part_bytes, '7');
  while (words.size() < 5 * DocumentReader::part_bytes) words += "some words here ";
  for (const std::string& text : {words, digits + words, words + digits, std::string("short")}) {
    RawDocuments raw({{write("a.txt", text)}, {write("b.txt", "other")}}, std::nullopt, *encoder);
    std::string all;
    for (bool last = false; !last;) {
      const auto part = raw.next();
      ASSERT_TRUE(part && *part);
      EXPECT_EQ((*part)->first, all.empty());
      last = (*part)->last;
      all += (*part)->content;
      if (text == words) {
        EXPECT_LE((*part)->content.size(), DocumentReader::part_bytes);
      }
    }
    EXPECT_EQ(all, text);
    EXPECT_EQ((*raw.next())->content, "other");
    EXPECT_FALSE(raw.next()->has_value());
  }
}

TEST_F(DataTexts, TheFirstDocumentsAreShownAsTrainingHasThem) {
  const std::string tokenizers = source_file("tests/golden/tokenizers/");
  std::string text;
  while (text.size() < 5 * DocumentReader::part_bytes) text += "some words here ";
  DataConfig config{.train = {write("a.txt", text),
                              write("c.jsonl", R"({"prompt": "one two", "completion": " three \u4e2d"})")}};
  config.tokenizer = tokenizers + "llama2.json";
  const auto sources = all_sources(config, true).value();
  const auto shown = first_documents(sources, config, 1 << 20, 64, "", 3).value().documents;
  ASSERT_EQ(shown.size(), 2u);  // not three parts of the first document
  EXPECT_THAT(shown[0].place, HasSubstr("a.txt (its beginning)"));
  ASSERT_EQ(shown[1].runs.size(), 2u);
  EXPECT_THAT(shown[1].runs[0].text, testing::EndsWith("one two"));
  EXPECT_EQ(shown[1].runs[1].text, " three \u4e2d");  // includes its space
  EXPECT_EQ(caches_or_none(), 0u);
}

}  // namespace tidepool::texts_test
