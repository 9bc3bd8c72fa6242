// Records as other tools write and read them: each key means what it means there, or is refused by name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <zlib.h>

#include "data/batches/make_cache.h"
#include "data/batches/open_documents.h"
#include "data/records/record.h"
#include "huggingface/jinja/json.h"
#include "tests/support/document_files.h"
#include "tests/support/model_directory.h"

namespace tidepool::foreign_records_test {

using testing::AllOf;
using testing::HasSubstr;

// Prints the content of a message, or nothing if it is undefined.
constexpr std::string_view text_template =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}({{ c.name }})"
    "{% endfor %}.{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

class ForeignRecords : public test::DocumentsFixture {
 protected:
  // RETURNS: the documents as text, with [...] around what is learned and | between documents; or the error.
  // The first token of a document is no target.
  std::string shown(const std::string& lines, DataConfig config = {}) {
    config.train = {write("d.jsonl", lines)};
    const auto sources = all_sources(config, has_tokenizer(config, model_));
    if (!sources) return sources.error().message;
    const auto made = first_documents(*sources, config, 512, 64, model_, 9);
    if (!made) return made.error().message;
    std::string out;
    for (const ShownDocument& document : made->documents) {
      if (!out.empty()) out += '|';
      for (const auto& run : document.runs) out += run.learned ? "[" + run.text + "]" : run.text;
    }
    return out;
  }
  std::string chat(const std::string& lines, std::string_view text = text_template) {
    return shown(lines, {.chat_template = write("t.jinja", text)});
  }
  static std::string messages(std::string_view list, std::string_view more = "") {
    return fmt::format(R"({{"messages": [{}]{}}})", list, more);
  }

  std::string model_;  // its directory; empty: bytes are tokens
};

constexpr std::string_view user_and_answer =
    R"({"role": "user", "content": "q"}, {"role": "assistant", "content": "a"})";

TEST_F(ForeignRecords, APromptAndCompletionOfMessagesAreLearnedBehindThePrompt) {
  const std::string one =
      R"({"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]})";
  EXPECT_EQ(chat(one), "<user>q.<assistant>[a.]");
  for (const char* loss : {"last_answer", "all"}) {
    const std::string all = shown(one, {.chat_template = dir_ / "t.jinja", .loss = loss});
    EXPECT_EQ(all, loss == std::string("all") ? "<[user>q.<assistant>a.]" : "<user>q.<assistant>[a.]");
  }
  EXPECT_EQ(shown(one, {.records = "completion", .chat_template = dir_ / "t.jinja"}),
            "<user>q.<assistant>[a.]");
  // As in TRL, the whole completion is learned, and no answer of the prompt.
  EXPECT_EQ(
      chat(R"({"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}, )"
           R"({"role": "user", "content": "r"}], "completion": [{"role": "assistant", "content": "c"}, )"
           R"({"role": "tool", "content": "t"}, {"role": "assistant", "content": "d"}]})"),
      "<user>q.<assistant>b.<user>r.<assistant>[c.<tool>t.<assistant>d.]");
  // A prompt for an answer that is longer than what stands before the answer.
  EXPECT_EQ(chat(one,
                 "{% for m in messages %}<{{ m.role }}>{{ m.content }}.{% endfor %}"
                 "{% if add_generation_prompt %}<assistant><think>{% endif %}"),
            "<user>q.<assistant>[a.]");
  EXPECT_EQ(chat(R"({"prompt": [], "completion": []})"), (dir_ / "d.jsonl") + ":1: \"prompt\" is empty");
}

TEST_F(ForeignRecords, CompletionsOfTextAndOfMessagesAreDifferentKinds) {
  const std::string
      text = R"({"prompt": "q", "completion": "a"})",
      list =
          R"({"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]})";
  EXPECT_THAT(chat(text + "\n" + list), HasSubstr("d.jsonl:2: prompt and completion must both be text"));
  EXPECT_THAT(chat(list + "\n" + text),
              HasSubstr("d.jsonl:2: prompt and completion must both be lists of messages"));
  EXPECT_THAT(chat(R"({"prompt": "q", "completion": [{"role": "assistant", "content": "a"}]})"),
              HasSubstr("\"prompt\" and \"completion\" must both be text, or both lists of messages"));
  EXPECT_THAT(
      chat(list,
           "{% for m in messages %}{% if messages|length > 1 %}!{% endif %}{{ m.content }}{% endfor %}"),
      HasSubstr("the template writes the prompt differently if a completion follows"));
  EXPECT_THAT(
      chat(
          R"({"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a", "weight": 0}]})"),
      HasSubstr("completion[0] has a weight of 0"));
}

TEST_F(ForeignRecords, PartsAreJoinedForATemplateThatTakesText) {
  const std::string parts = messages(
      R"({"role": "user", "content": [{"type": "text", "text": "q"}]}, {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "image": null}]})");
  for (const std::string_view takes_text :
       {text_template,
        std::string_view("{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] + '.' }}{% endfor %}"
                         "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"),
        // Qwen3's way to ask for text, which would drop a list.
        std::string_view(
            "{% for m in messages %}{% set c = m.content if m.content is string else '' %}"
            "<{{ m.role }}>{{ c }}.{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"),
        std::string_view("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}.{% endfor %}"
                         "{% if add_generation_prompt %}<assistant>{% endif %}")})
    EXPECT_EQ(chat(parts, takes_text), "<user>q.<assistant>[ab.]") << takes_text;
}

TEST_F(ForeignRecords, ATemplateThatTakesPartsApartGetsTheList) {
  const std::string parts = messages(
      R"({"role": "user", "content": "q"}, {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "image": null}]})");
  for (const std::string_view takes_parts :
       {"{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}{{ '+' if 'image' in p }}{{ p.text }};{% endfor %}{% endif %}.{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}",
        "{% for m in messages %}<{{ m.role }}>{{ m.content if m.content is string else "
        "(m.content | map(attribute='text') | join(';')) + ';' }}.{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"})
    EXPECT_EQ(chat(parts, takes_parts), "<user>q.<assistant>[a;b;.]") << takes_parts;
}

TEST_F(ForeignRecords, PartsThatAreNotTextAreRefusedByNameAndLine) {
  const auto fault_of = [&](std::string_view part) {
    return shown(messages(user_and_answer) + "\n" +
                     messages(fmt::format(R"({{"role": "user", "content": [{}]}})", part)),
                 {.chat_template = "chatml"});
  };
  EXPECT_THAT(fault_of(R"({"type": "image_url", "image_url": {"url": "x"}})"),
              HasSubstr("d.jsonl:2: messages[0].content[0] is of type \"image_url\""));
  EXPECT_THAT(fault_of(R"({"type": "text", "text": "a"}, {"type": "audio"})"),
              HasSubstr("messages[0].content[1] is of type \"audio\""));
  EXPECT_THAT(fault_of(R"({"image": "x"})"), HasSubstr("messages[0].content[0] has no \"text\""));
  EXPECT_THAT(fault_of(R"("a")"), HasSubstr("messages[0].content[0] must be an object"));
  EXPECT_THAT(fault_of(R"({"type": "text", "text": 1})"),
              HasSubstr("messages[0].content[0].text must be text"));
}

TEST_F(ForeignRecords, KeysOfAMessageThatAreNullAreDropped) {
  const std::string call = messages(
      R"({"role": "user", "content": "q"}, {"role": "assistant", "content": null, "tool_calls": [{"name": "f", "none": null}]})");
  EXPECT_EQ(chat(call), "<user>q.<assistant>[(f).]");
  const auto tests = [](std::string_view test) {
    return fmt::format(
        "{{% for m in messages %}}<{{{{ m.role }}}}>{{{{ 'yes' if {} else 'no' }}}}.{{% endfor %}}"
        "{{% if add_generation_prompt %}}<assistant>{{% endif %}}",
        test);
  };
  EXPECT_EQ(chat(call, tests("m.content is none")), "<user>no.<assistant>[no.]");
  EXPECT_EQ(chat(call, tests("m.content is defined")), "<user>yes.<assistant>[no.]");
  EXPECT_EQ(chat(call, tests("'content' in m")), "<user>yes.<assistant>[no.]");
  EXPECT_EQ(chat(call, tests("m.content")), "<user>yes.<assistant>[no.]");
  // Only keys of messages: what a tool call says stays.
  EXPECT_EQ(chat(call, tests("m.tool_calls and m.tool_calls[0].none is none")), "<user>no.<assistant>[yes.]");
}

TEST_F(ForeignRecords, ReasoningIsFoundUnderItsNames) {
  constexpr std::string_view reading =
      "{% for m in messages %}<{{ m.role }}>{{ m.reasoning_content }}/{{ m.thinking }}/{{ m.content }}.{% "
      "endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  for (const char* name : {"reasoning_content", "thinking", "reasoning"})
    EXPECT_EQ(
        chat(messages(fmt::format(
                 R"({{"role": "user", "content": "q"}}, {{"role": "assistant", "content": "a", "{}": "r"}})",
                 name)),
             reading),
        "<user>//q.<assistant>[r/r/a.]");
}

TEST_F(ForeignRecords, MasksOfTokenRowsMakeLabels) {
  for (const char* mask : {"assistant_masks", "completion_mask", "loss_mask"}) {
    EXPECT_EQ(shown(fmt::format(R"({{"input_ids": [65, 66, 67, 68], "{}": [0, 0, 1, 1]}})", mask)), "AB[CD]");
    EXPECT_EQ(shown(fmt::format(R"({{"input_ids": [65, 66, 67, 68], "{}": [false, 1.0, 0, true]}})", mask)),
              "A[B]C[D]");
    EXPECT_EQ(shown(fmt::format(R"({{"input_ids": [65, 66], "{}": null}})", mask)), "A[B]");
    EXPECT_THAT(shown(fmt::format(R"({{"input_ids": [65, 66], "{}": [1]}})", mask)),
                HasSubstr(fmt::format("d.jsonl:1: 1 {} for 2 input_ids", mask)));
    EXPECT_THAT(shown(fmt::format(R"({{"input_ids": [65, 66], "{}": [1, 0.5]}})", mask)),
                HasSubstr(fmt::format("{}[1] must be 0 or 1", mask)));
    EXPECT_THAT(shown(fmt::format(R"({{"input_ids": [65, 66], "labels": [-100, 66], "{}": [1, 0]}})", mask)),
                HasSubstr(fmt::format("labels[1] is learned, but {}[1] is 0", mask)));
  }
  EXPECT_EQ(
      shown(
          R"({"input_ids": [65, 66, 67, 68], "assistant_masks": [0, 1, 0, 1], "completion_mask": [0, 0, 1, 1]})"),
      "ABC[D]");
  EXPECT_EQ(shown(R"({"input_ids": [65, 66, 67], "labels": [-100, -100, 67], "assistant_masks": [1, 1, 1]})"),
            "AB[C]");
}

TEST_F(ForeignRecords, PaddingIsLeftOutAndPackedRowsAreTakenApart) {
  EXPECT_EQ(shown(R"({"input_ids": [0, 65, 66, 67, 0], "attention_mask": [0, 1, 1, 1, 0]})"), "A[BC]");
  EXPECT_EQ(shown(R"({"input_ids": [0, 65, 66], "attention_mask": [0, 1, 1], "position_ids": [1, 0, 1]})"),
            "A[B]");
  EXPECT_EQ(shown(R"({"input_ids": [65, 66, 67, 68, 69], "position_ids": [0, 1, 0, 1, 2]})"), "A[B]|C[DE]");
  EXPECT_EQ(shown(R"({"input_ids": [65, 66, 67, 68, 69], "seq_lengths": [2, 3]})"), "A[B]|C[DE]");
  EXPECT_EQ(shown(R"({"input_ids": [65, 66, 67, 68, 0], "attention_mask": [1, 1, 2, 2, 0]})"), "A[B]|C[D]");
  EXPECT_EQ(shown(R"({"input_ids": [65, 66, 67, 68], "seq_lengths": [2, 2], "position_ids": [0, 1, 0, 1], )"
                  R"("labels": [-100, 66, -100, 68], "length": 4, "token_type_ids": [0, 0, 0, 0]})"),
            "A[B]|C[D]");
  const std::pair<const char*, const char*> refused[] = {
      {R"("attention_mask": [1, 0, 1])", "attention_mask[2] is 1 again"},
      {R"("attention_mask": [0, 0, 0])", "no token but padding"},
      {R"("attention_mask": [1, -1, 1])", "attention_mask[1] must be 0, 1"},
      {R"("attention_mask": [1, 1])", "2 attention_mask for 3 input_ids"},
      {R"("attention_mask": [1, 1, 0], "labels": [65, 66, 67])",
       "labels[2] is learned, but attention_mask[2] is 0"},
      {R"("position_ids": [0, 1, 3])", "position_ids[2] is 3, but must be 2"},
      {R"("position_ids": [5, 6, 7])", "position_ids[0] is 5, but must be 0"},
      {R"("seq_lengths": [2, 2])", "the sum of seq_lengths is 4"},
      {R"("seq_lengths": [1, 2], "position_ids": [0, 1, 2])", "position_ids[1] is 1, but must be 0"},
      {R"("token_type_ids": [0, 0, 1])", "\"token_type_ids\" (as in transformers)"},
      {R"("cu_seqlens": [0, 1, 3])", "write position_ids or seq_lengths instead"},
      {R"("pixel_values": [[1]])", "\"pixel_values\" (as in transformers)"},
      {R"("prompt_mask": [1, 0, 0])", "\"prompt_mask\" has a number for each token"},
  };
  for (const auto& [keys, reason] : refused)
    EXPECT_THAT(shown(fmt::format(R"({{"input_ids": [65, 66, 67], {}}})", keys)), HasSubstr(reason)) << keys;
}

TEST_F(ForeignRecords, PackedRowsAreTrainedOnAsSeveralDocuments) {
  const auto data = opened(
      {.train = {write("d.jsonl", R"({"input_ids": [65, 66, 67, 68, 69], "position_ids": [0, 1, 0, 1, 2]})")},
       .validation_fraction = 0,
       .shuffle = false});
  ASSERT_TRUE(data);
  const Row row = train_row(*data, 0);
  EXPECT_EQ(row.starts[0], 0);
  EXPECT_EQ(row.starts[1], 1);
  EXPECT_EQ(row.starts[2], 1);
  EXPECT_EQ(row.targets[0], 66);
  EXPECT_EQ(row.targets[1], 68);
  EXPECT_EQ(row.targets[2], 69);
  EXPECT_EQ(data->train_targets(0), 3u);
}

TEST_F(ForeignRecords, KeysWithAMeaningElsewhereAreRefusedByName) {
  const std::pair<std::string, const char*> refused[] = {
      {messages(user_and_answer, R"(, "images": ["x"])"), "\"images\" (as in TRL, LLaMA-Factory)"},
      {messages(user_and_answer, R"(, "system": "s")"), "write it as the first message"},
      {messages(user_and_answer, R"(, "functions": [{"name": "f"}])"), "write \"tools\""},
      {messages(user_and_answer, R"(, "rejected": "b")"), "preference data"},
      {R"({"prompt": "q", "completion": "a", "label": false})", "people rejected this answer"},
      {R"({"prompt": "q", "chosen": "a", "rejected": "b"})", "this is preference data"},
      {R"({"prompt": "q"})", "nothing to learn without a \"completion\""},
      {R"({"segments": [{"label": true, "text": "a"}]})", "axolotl's segments"},
      {R"({"text": "a", "image": "x"})", "\"image\" (as in TRL)"},
      {R"({"instruction": "q", "output": "a", "tools": "[1]"})", "write the record as messages"},
      {messages(R"({"role": "assistant", "content": "a", "train": 3})"), "messages[0].train must be 1, or 0"},
  };
  for (const auto& [line, reason] : refused)
    EXPECT_THAT(chat(line), AllOf(HasSubstr("d.jsonl:1: "), HasSubstr(reason))) << line;
  EXPECT_EQ(chat(messages(user_and_answer, R"(, "images": [], "system": "", "rejected": null, "my_id": 5)")),
            "<user>q.<assistant>[a.]");
  EXPECT_EQ(shown(R"({"prompt": "q", "completion": "a", "label": true})"), "q[a]");
  EXPECT_EQ(chat(messages(R"({"role": "assistant", "content": "a", "train": false}, )"
                          R"({"role": "assistant", "content": "b", "loss": true})")),
            "<assistant>a.<assistant>[b.]");
}

TEST_F(ForeignRecords, InstructionsHaveASystemMessageAndAHistory) {
  const std::string line =
      R"({"instruction": "q", "output": "a", "system": "s", "history": [["b", "c"]], "chat_template_kwargs": {"x": 1}})";
  EXPECT_EQ(chat(line), "<system>s.<user>b.<assistant>[c.]<user>q.<assistant>[a.]");
  EXPECT_THAT(shown(line), HasSubstr("system, history and chat_template_kwargs need a chat template"));
  EXPECT_THAT(chat(R"({"instruction": "q", "output": "a", "history": [["b"]]})"),
              HasSubstr("history[0] must be a list of an instruction and its output"));
  EXPECT_EQ(chat(R"({"instruction": "q", "output": "a", "history": [], "system": null})"),
            "<user>q.<assistant>[a.]");
}

TEST_F(ForeignRecords, TemplateVariablesOfARowReachTheTemplate) {
  constexpr std::string_view reading =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ '+' if thinking else '-' }}{{ tools | length "
      "if tools "
      "else 0 }}{{ bos_token }}.{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  const auto row = [&](std::string_view variables) {
    return messages(user_and_answer, fmt::format(R"(, "chat_template_kwargs": {})", variables));
  };
  EXPECT_EQ(chat(row("null"), reading), "<user>q-0.<assistant>[a-0.]");
  EXPECT_EQ(chat(row(R"({"thinking": true, "tools": [{"name": "f"}]})"), reading),
            "<user>q+1.<assistant>[a+1.]");
  EXPECT_EQ(chat(row(R"({"bos_token": "B", "chat_template": null})"), reading),
            "<user>q-0B.<assistant>[a-0B.]");
  // A row says more than the config.
  EXPECT_EQ(shown(row(R"({"thinking": false})") + "\n" + messages(user_and_answer),
                  {.chat_template = dir_ / "t.jinja", .chat_template_arguments = {"thinking=true"}}),
            "<user>q-0.<assistant>[a-0.]|<user>q+0.<assistant>[a+0.]");
  for (const char* name : {"messages", "add_generation_prompt", "chat_template", "tokenize"})
    EXPECT_THAT(chat(row(fmt::format(R"({{"{}": 1}})", name)), reading),
                HasSubstr(fmt::format("d.jsonl:1: chat_template_kwargs has {}, which is no variable", name)));
  EXPECT_THAT(chat(row("[1]"), reading), HasSubstr("\"chat_template_kwargs\" must be an object, not a list"));
}

// The key of a cache follows from the content of the files, and so from the variables of each row.
TEST_F(ForeignRecords, OtherTemplateVariablesOfARowMakeAnotherCache) {
  const std::string path = write("t.jinja", "{{ 'x' if x }}" + std::string(text_template));
  for (const char* x : {"true ", "false"})
    opened({.train = {write("d.jsonl", messages(user_and_answer,
                                                fmt::format(R"(, "chat_template_kwargs": {{"x": {}}})", x)))},
            .validation_fraction = 0,
            .chat_template = path},
           64);
  EXPECT_EQ(caches(), 2u);
}

TEST_F(ForeignRecords, NamedTokensAreVariablesOfTheTemplate) {
  model_ = dir_ / "model";
  std::filesystem::create_directory(model_);
  test::write_byte_tokenizer(model_);
  const auto with = [&](const std::string& config) {
    write("model/tokenizer_config.json", config);
    return chat(messages(user_and_answer),
                "{{ boi_token }}/{{ eos_token }}/{{ add_bos_token }}:" + std::string(text_template));
  };
  EXPECT_EQ(with(R"({"extra_special_tokens": {"boi_token": "<s>"}})"), "<s>//:<user>q.<assistant>[a.]");
  EXPECT_EQ(with(R"({"model_specific_special_tokens": {"boi_token": {"content": "<s>"}}})"),
            "<s>//:<user>q.<assistant>[a.]");
  EXPECT_EQ(with(R"({"boi_token": "<s>", "eos_token": "</s>", "add_bos_token": true})"),
            "<s>/</s>/:<user>q.<assistant>[a.]");
  EXPECT_EQ(with(R"({"extra_special_tokens": ["<s>"]})"), "//:<user>q.<assistant>[a.]");
}

std::string gzipped(const std::string& text) {
  std::string out(text.size() + 1000, '\0');
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

TEST_F(ForeignRecords, EndingsInCapitalLettersMeanWhatTheySay) {
  const std::string line = "{\"text\": \"abc\"}\n";
  for (const auto& [name, bytes] :
       {std::pair{"a.JSONL", line}, std::pair{"a.NdJson", line}, std::pair{"a.JSON", line},
        std::pair{"a.JSONL.GZ", gzipped(line)}, std::pair{"a.Json.Gz", gzipped(line)}}) {
    const auto data = opened({.train = {write(name, bytes)}, .validation_fraction = 0});
    ASSERT_TRUE(data) << name;
    EXPECT_EQ(data->tokens(), 3u) << name;
  }
  EXPECT_EQ(files_of({{.path = write("a.BIN", "aabb"), .by = FoundBy::name}}, {}, true)->kinds[0],
            FileKind::tokens);
  EXPECT_THAT(fault({.train = {write("a.NPY", "x")}}), HasSubstr("is not a .npy file"));
  EXPECT_THAT(fault({.train = {write("odd.BIN", "xxx")}}),
              HasSubstr("are not a whole number of uint16 tokens"));
  write("dir/a.JSONL", line);
  std::filesystem::create_directory(dir_ / "dir");
  write("dir/a.JSONL", line);
  EXPECT_EQ(opened({.train = {dir_ / "dir"}, .validation_fraction = 0})->tokens(), 3u);
}

TEST_F(ForeignRecords, LinesThatAreNoJsonAreNamedAsWhatTheyAre) {
  const std::string good = "{\"text\": \"abc\"}\n";
  const std::pair<std::string, const char*> lines[] = {
      {"\xef\xbb\xbf" + good, "d.jsonl:2: has a byte order mark (U+FEFF) at byte 0"},
      {"{\"text\": \xef\xbb\xbf\"a\"}", "has a byte order mark (U+FEFF) at byte 9"},
      {R"({"text": "a", "score": NaN})", "d.jsonl:2: NaN is no JSON, although Python writes it; write null"},
      {R"({"text": "a", "score": [1, Infinity]})", "Infinity is no JSON"},
      {R"({"text": "a", "score": -Infinity})", "-Infinity is no JSON"},
      {"{\n \"text\": \"a\"\n}",
       "d.jsonl:2: the object does not end on this line; every line must be a whole object"},
      {"{\"text\": \"a\",\n \"b\": 1}", "convert JSON over several lines with  jq -c . FILE > OUT"},
      {"{\"text\": \"a\", \"b\": 1", "was the line cut off?"},
      {std::string("{\"text\": \"a\0b\"}", 15), "has a zero byte, so it is no text"},
  };
  for (const auto& [line, reason] : lines) EXPECT_THAT(shown(good + line), HasSubstr(reason)) << line;
  EXPECT_THAT(shown("{\n \"text\": \"a\"\n}"), HasSubstr("d.jsonl:1: the object does not end on this line"));
  // A text may have such words and marks.
  EXPECT_EQ(shown("{\"text\": \"NaN: \xef\xbb\xbf {\"}"), "N[aN: \xef\xbb\xbf {]");
}

TEST_F(ForeignRecords, BinaryFilesNamedJsonlAreNamedAsWhatTheyAre) {
  const std::pair<std::string, const char*> files[] = {
      {"PAR1" + std::string(50, ' '), "d.jsonl: is Parquet, which is not supported; write it as JSONL"},
      {"ARROW1 ", "is Arrow"},
      {std::string("\xff\xff\xff\xff\x10\0\0\0", 8), "is Arrow"},
      {"PK\3\4...", "is a zip archive"},
      {"SQLite format 3", "is an SQLite database"},
      {std::string("\x80\4\x95\0\0", 5), "is a Python pickle"},
      {std::string("a\0\0b\n", 5), "has a zero byte"},
  };
  for (const auto& [bytes, reason] : files) {
    EXPECT_THAT(shown(bytes), HasSubstr(reason));
    EXPECT_THAT(shown(gzipped(bytes)), HasSubstr(reason));
    EXPECT_THAT(shown(bytes, {.format = DataFormat::jsonl}), HasSubstr(reason));
  }
}

}  // namespace tidepool::foreign_records_test
