// Documents from files to rows: learned parts, held-out parts, refusals.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "data/batches/document_dataset.h"
#include "tests/support/document_files.h"
#include "tests/support/model_directory.h"

namespace tidepool::documents_test {

using testing::HasSubstr;

class DataDocuments : public test::DocumentsFixture {};

TEST_F(DataDocuments, RowsHoldEveryDocumentOnceAndAttentionStaysWithinEach) {
  const auto data = opened({.train = {letters("a.jsonl", 40, 14)}, .validation_fraction = 0});
  u64 seen = 0;
  for (u64 i = 0; i < data->train_sequences(); ++i) {
    const Row row = train_row(*data, i);
    u32 targets = 0;
    for (u32 t = 0; t < 16; ++t) {
      ASSERT_LE(row.starts[t], static_cast<i32>(t));
      ASSERT_EQ(row.starts[row.starts[t]], row.starts[t]);  // a document begins where its tokens say
      if (!has_loss(row.targets[t])) continue;
      EXPECT_EQ(row.targets[t], row.tokens[t]);  // in the same document
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

TEST_F(DataDocuments, LongDocumentsAreCutAndPositionsRestart) {
  const std::string text = "{\"text\": \"abcdefghijklmnopqrstuvwxyz\"}";
  const auto data =
      opened({.train = {write("a.jsonl", text)}, .validation_fraction = 0, .shuffle = false}, 10);
  ASSERT_EQ(data->train_sequences(), 3u);
  std::string tokens, targets;
  for (u64 i = 0; i < 3; ++i) {
    const Row row = train_row(*data, i);
    EXPECT_EQ(row.starts[0], 0);
    for (u32 t = 0; t < 10 && has_loss(row.targets[t]); ++t) {
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
      if (has_loss(target)) out += static_cast<char>(target);
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
        if (has_loss(row.targets[t])) out.insert(row.targets[t]);
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

TEST_F(DataDocuments, NotesCountOneDocumentInTheSingular) {
  const std::string one = R"({"text": "abc"})", other = R"({"text": "a text longer than a row"})";
  const auto data = opened({.train = {write("a.jsonl", one + "\n" + one)}, .validation_fraction = 0.5});
  EXPECT_THAT(data->notes()[1], HasSubstr("data: 1 document in 1 row of 16"));
  EXPECT_THAT(data->notes()[1], HasSubstr(", 1 document held out"));
  const auto cut = opened({.train = {write("b.jsonl", other)}, .validation_fraction = 0});
  EXPECT_THAT(cut->notes()[0], HasSubstr("data: 1 document of "));
  EXPECT_THAT(cut->notes()[1], HasSubstr("; 1 longer than a row was cut"));
}

// docs/training.md promises 5 %, but a book in one file is a single document.
TEST_F(DataDocuments, TheLastRowsOfASingleLongDocumentAreHeldOut) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>('a' + i / 40);
  const auto data = opened({.train = {write("a.jsonl", "{\"text\": \"" + text + "\"}")},
                            .validation_fraction = 0.1,
                            .shuffle = false},
                           10);
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

TEST_F(DataDocuments, DataThatCannotBeTrainedOnIsRefused) {
  const std::string jsonl = letters("a.jsonl", 3, 5),
                    text = write("b.txt", "plain text that is long enough for a row of it");
  EXPECT_THAT(fault({.train = {jsonl, text}}), HasSubstr("a run takes only one kind"));
  EXPECT_THAT(fault({.train = {text}, .weights = {1}}), HasSubstr("data.weights mixes documents only"));
  EXPECT_THAT(fault({.train = {write("c.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})")}}),
              HasSubstr("a chat needs a chat template"));
  EXPECT_THAT(fault({.train = {write("c.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})")},
                     .chat_template = "chatml"}),
              HasSubstr("no document has anything to learn (1 have none)"));
  EXPECT_THAT(fault({.train = {write("d.jsonl", R"({"input_ids": [1, 300]})")}}),
              HasSubstr("token 1 of the document is 300, but the model's vocabulary has 256"));
  EXPECT_THAT(fault({.train = {write("e.jsonl", "{\"text\": \"a\"}\n{\"prompt\": \"a\"}\n")}}),
              HasSubstr("e.jsonl:2: this is not a text record"));
  const std::string chat = write("f.jsonl", R"({"messages": [{"role": "assistant", "content": "aa"}]})");
  EXPECT_THAT(
      fault({.train = {chat}, .chat_template = dir_ / "none.jinja"}),
      AllOf(HasSubstr("none.jinja: cannot open"),
            HasSubstr("correct data.chat_template, which names a file, or use the built-in template")));
  EXPECT_THAT(fault({.train = {chat}, .chat_template = write("t.jinja", "{{ x | nope }}")}),
              AllOf(HasSubstr("t.jinja:1: the filter 'nope'"), HasSubstr("data.chat_template: chatml")));
  EXPECT_THAT(fault({.train = {jsonl}, .tokenizer = dir_ / "none"}),
              AllOf(HasSubstr("none: cannot open"), HasSubstr("correct data.tokenizer")));
}

// A template that no record uses is not opened, so an unsupported one is no error and changes no cache.
TEST_F(DataDocuments, AChatTemplateIsOpenedOnlyForChats) {
  const std::string jsonl = letters("a.jsonl", 20, 14);
  const auto plain = opened({.train = {jsonl}});
  EXPECT_TRUE(opened({.train = {jsonl}, .chat_template = write("t.jinja", "{{ x | nope }}")}));
  EXPECT_TRUE(opened({.train = {jsonl}, .chat_template = "chatml"}));
  EXPECT_EQ(caches(), 1u);
}

TEST_F(DataDocuments, ANamedJsonFileIsRecordsNotText) {
  EXPECT_THAT(fault({.train = {write("list.json", R"([{"instruction": "do", "output": "done"}])")}}),
              HasSubstr("jq"));
  const auto data = opened({.train = {write("lines.json", "{\"text\": \"abc\"}\n{\"text\": \"defgh\"}\n")},
                            .validation_fraction = 0});
  EXPECT_EQ(data->tokens(), 8u);
}

TEST_F(DataDocuments, FilesThatAreNeitherTextNorPackedTextAreNamed) {
  EXPECT_THAT(fault({.train = {write("t.parquet", "PAR1 and so on")}}),
              AllOf(HasSubstr("is Parquet"), HasSubstr("JSONL")));
  EXPECT_THAT(fault({.train = {write("t.xz", std::string("\xfd"
                                                         "7zXZ\0 and so on",
                                                         17))}}),
              HasSubstr("is xz"));
}

TEST_F(DataDocuments, ContentInPartsIsTheirTextOrRefused) {
  const auto record = [&](std::string_view parts) {
    return write("c.jsonl",
                 fmt::format(R"({{"messages": [{{"role": "assistant", "content": {}}}]}})", parts));
  };
  const std::string parts = R"([{"type": "text", "text": "ab"}, {"type": "text", "text": "cd"}])";
  const auto data =
      opened({.train = {record(parts)}, .validation_fraction = 0, .chat_template = "chatml"}, 64);
  ASSERT_TRUE(data);
  const Row row = train_row(*data, 0);
  std::string text;
  for (const i32 token : row.tokens) text += static_cast<char>(token);
  EXPECT_THAT(text, testing::StartsWith("<|im_start|>assistant\nabcd<|im_end|>"));
  EXPECT_THAT(fault({.train = {record(R"([{"type": "image", "url": "x"}])")}, .chat_template = "chatml"}),
              AllOf(HasSubstr("c.jsonl:1"), HasSubstr("messages[0].content[0] is of type \"image\"")));
  EXPECT_THAT(
      fault({.train = {write("d.jsonl",
                             R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f"}]}]})")},
             .chat_template = "chatml"}),
      HasSubstr("no form for tool calls"));
}

// Files of a model may name the token by text or by id.
TEST_F(DataDocuments, TextsEndWithTheEndTokenOfTheModelDirectory) {
  const std::string model = dir_ / "model", lines = write("t.jsonl", "{\"text\": \"abc\"}\n");
  std::filesystem::create_directory(model);
  test::write_byte_tokenizer(model);
  const DataPlace place{.cache = dir_ / "cache", .model_directory = model};
  const auto open = [&](bool end = true) {
    return Dataset::open({.train = {lines}, .validation_fraction = 0, .end_token = end}, 300, 8, 1, place);
  };
  const auto last = [&] {
    const auto data = open();
    EXPECT_TRUE(data) << data.error().message;
    return data ? train_row(**data, 0).targets[2] : 0;
  };
  EXPECT_EQ(last(), 257);
  write("model/tokenizer_config.json", "{}");
  EXPECT_EQ(last(), 257);  // from generation_config.json
  write("model/generation_config.json", "{}");
  write("model/config.json", R"({"eos_token_id": 256})");
  EXPECT_EQ(last(), 256);
  write("model/config.json", R"({"eos_token_id": 258})");
  EXPECT_THAT(open().error().message,
              AllOf(HasSubstr("has no token 258"), HasSubstr("data.end_token: false")));
  EXPECT_TRUE(open(false));
  write("model/config.json", "{}");
  EXPECT_EQ(last(), padding_target);
  EXPECT_THAT((*open())->notes(), testing::Contains(HasSubstr("texts get no end token")));
  EXPECT_THAT((*open(false))->notes(), Not(testing::Contains(HasSubstr("texts get no end token"))));
}

// transformers adds such tokens to the tokenizer; otherwise they would be cut into pieces.
TEST_F(DataDocuments, TokensThatOnlyTheFilesBesideTheTokenizerNameAreRefused) {
  const std::string model = dir_ / "model", lines = write("t.jsonl", "{\"text\": \"abc\"}\n");
  std::filesystem::create_directory(model);
  test::write_byte_tokenizer(model);
  const DataPlace place{.cache = dir_ / "cache", .model_directory = model};
  const auto refusal = [&](const char* file, const std::string& text) {
    write(std::string("model/") + file, text);
    const auto data =
        Dataset::open({.train = {lines}, .validation_fraction = 0, .end_token = false}, 300, 8, 1, place);
    write(std::string("model/") + file, "{}");
    return data ? "it was taken" : data.error().message;
  };
  const auto config = [&](const std::string& text) { return refusal("tokenizer_config.json", text); };
  for (const char* text :
       {R"({"eos_token": "<new>"})", R"({"pad_token": {"content": "<new>"}})",
        R"({"added_tokens_decoder": {"256": {"content": "<s>"}, "258": {"content": "<new>"}}})",
        R"({"additional_special_tokens": ["<s>", "<new>"]})",
        R"({"additional_special_tokens": [{"content": "<new>"}]})",
        R"({"extra_special_tokens": {"image_token": "<new>"}})"}) {
    for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"})
      EXPECT_THAT(refusal(file, text), AllOf(HasSubstr(std::string("model/") + file), HasSubstr("'<new>'"),
                                             HasSubstr("save_pretrained")))
          << text;
  }
  EXPECT_THAT(refusal("added_tokens.json", R"({"<s>": 256, "<new>": 258})"),
              AllOf(HasSubstr("model/added_tokens.json"), HasSubstr("'<new>'")));
  EXPECT_EQ(refusal("added_tokens.json", R"({"<s>": 256})"), "it was taken");
  EXPECT_THAT(refusal("added_tokens.json", R"({"<s>": 257})"),
              AllOf(HasSubstr("model/added_tokens.json"), HasSubstr("'<s>' the id 257"),
                    HasSubstr("model/tokenizer.json gives it 256")));
  EXPECT_THAT(refusal("added_tokens.json", R"({"<s>": "x"})"), HasSubstr("'<s>' must have a token id"));
  EXPECT_THAT(config(R"({"added_tokens_decoder": {"256": {"content": "</s>"}}})"),
              AllOf(HasSubstr("'</s>' the id 256"), HasSubstr("gives it 257")));
  EXPECT_THAT(config(R"({"added_tokens_decoder": {"x": {"content": "</s>"}}})"),
              HasSubstr("added_tokens_decoder: 'x' is not a token id"));
  EXPECT_THAT(config(R"({"pad_token": "a"})"),
              AllOf(HasSubstr("'a'"), HasSubstr("model.vocab but not in added_tokens"),
                    HasSubstr("save_pretrained")));
  EXPECT_EQ(config(R"({"eos_token": "</s>", "pad_token": null, "extra_special_tokens": {},
    "added_tokens_decoder": {"256": {"content": "<s>", "special": true}}})"),
            "it was taken");
}

// Bytes are tokens only if there is no tokenizer, not if the tokenizer cannot be read.
TEST_F(DataDocuments, ATokenizerInAnotherFormIsRefused) {
  const std::string model = dir_ / "model";
  std::filesystem::create_directory(model);
  const DataPlace place{.cache = dir_ / "cache", .model_directory = model};
  const auto refusal = [&](const std::string& file) {
    const auto data = Dataset::open({.train = {file}}, 256, 8, 1, place);
    return data ? "it was taken" : data.error().message;
  };
  const std::string text = write("t.txt", std::string(200, 'a')),
                    lines = write("t.jsonl", "{\"text\": \"abcdef\"}\n"),
                    tokens = write("t.jsonl.jsonl", R"({"input_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9]})");
  EXPECT_EQ(refusal(text), "it was taken");
  write("model/tokenizer_config.json", "{}");
  EXPECT_THAT(refusal(text), AllOf(HasSubstr("model/tokenizer_config.json"), HasSubstr("no tokenizer.json")));
  EXPECT_THAT(refusal(lines), HasSubstr("no tokenizer.json"));
  std::filesystem::remove(model + "/tokenizer_config.json");
  write("model/tokenizer.model", "x");
  EXPECT_THAT(refusal(text), AllOf(HasSubstr("model/tokenizer.model"), HasSubstr("save_pretrained")));
  EXPECT_THAT(refusal(lines), HasSubstr("model/tokenizer.model"));
  EXPECT_EQ(refusal(tokens), "it was taken");
  std::filesystem::create_symlink("nowhere", model + "/tokenizer.json");
  EXPECT_THAT(refusal(text), HasSubstr("leads nowhere"));
}

}  // namespace tidepool::documents_test
