// Which parts of a conversation are learned, and that cutting it there changes no token.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "data/answer_tokens.h"
#include "data/chat_template.h"
#include "tests/support/disk_fixture.h"

namespace tidepool {
namespace {

using testing::HasSubstr;

TokenizerConfig golden(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(TIDEPOOL_SOURCE_DIR "/tests/golden/chat/" + name + ".jinja").rdbuf();
  TokenizerConfig out;
  out.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  out.templates["default"] = {name, text.str()};
  return out;
}

ChatRecord chat(std::initializer_list<std::pair<const char*, const char*>> messages) {
  ChatRecord out;
  for (const auto& [role, content] : messages) {
    jinja::Dict message;
    message.set("role", role);
    message.set("content", content);
    out.messages.emplace_back(std::move(message));
  }
  return out;
}

// The text with [...] around what is learned.
std::string marked(const TokenizerConfig& config, const ChatRecord& record, LossOn loss = LossOn::answers,
                   ChatTemplateOptions options = {}) {
  const auto made = ChatTemplate::open(config, options);
  if (!made) return made.error().message;
  const auto rendered = (*made)->render(record, loss);
  if (!rendered) return rendered.error().message;
  std::string out;
  u64 at = 0;
  for (const jinja::Span& span : rendered->answers) {
    out += rendered->text.substr(at, span.begin - at) + "[" +
           rendered->text.substr(span.begin, span.end - span.begin) + "]";
    at = span.end;
  }
  return out + rendered->text.substr(at);
}

const ChatRecord two_turns = chat({{"user", "1"}, {"assistant", "one"}, {"user", "2"}, {"assistant", "two"}});

TEST(DataChat, AnswersAreFoundByPrefixes) {
  EXPECT_EQ(marked(golden("chatml"), two_turns),
            "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n[one<|im_end|>\n]<|im_start|>user\n2<|im_"
            "end|>\n<|im_start|>assistant\n[two<|im_end|>\n]");
  EXPECT_EQ(marked(golden("chatml"), two_turns, LossOn::last_answer),
            "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\none<|im_end|>\n<|im_start|>user\n2<|im_"
            "end|>\n<|im_start|>assistant\n[two<|im_end|>\n]");
  EXPECT_EQ(marked(golden("llama2"), two_turns),
            "<s>[INST] 1 [/INST][ one </s>]<s>[INST] 2 [/INST][ two </s>]");
  EXPECT_EQ(marked(golden("mistral"), two_turns), "<s>[INST] 1[/INST][ one</s>][INST] 2[/INST][ two</s>]");
  EXPECT_EQ(marked({}, two_turns, LossOn::answers, {.file = "chatml"}), marked(golden("chatml"), two_turns));
}

TEST(DataChat, AnswersAreFoundByMarks) {
  EXPECT_EQ(marked(golden("generation"), two_turns),
            "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n[one<|im_end|>]\n<|im_start|>user\n2<|im_"
            "end|>\n<|im_start|>assistant\n[two<|im_end|>]\n");
}

TEST(DataChat, WhatATemplateLeavesOutOfEarlierAnswersIsNotLearned) {
  const ChatRecord thinking = chat({{"user", "1"},
                                    {"assistant", "<think>\nhm\n</think>\n\none"},
                                    {"user", "2"},
                                    {"assistant", "<think>\nah\n</think>\n\ntwo"}});
  const std::string expected =
      "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n[one<|im_end|>\n]<|im_start|>user\n2<|im_end|>\n"
      "<|im_start|>assistant\n[<think>\nah\n</think>\n\ntwo<|im_end|>\n]";
  EXPECT_EQ(marked(golden("qwen3"), thinking), expected);
  // The prompt for an answer then ends in an empty thought, which answers in the middle do not have.
  const std::string unthinking =
      marked(golden("qwen3"), two_turns, LossOn::answers, {.arguments = {"enable_thinking=false"}});
  EXPECT_THAT(unthinking, HasSubstr("assistant\n[one<|im_end|>\n]"));
  EXPECT_THAT(unthinking, HasSubstr("</think>\n\n[two<|im_end|>\n]"));
}

TEST(DataChat, UnclearAnswersAreRefusedWithAWayOut) {
  // This one puts the system's words before the last thing that is said, and leaves them out where that is an
  // answer.
  const ChatRecord system =
      chat({{"system", "s"}, {"user", "1"}, {"assistant", "one"}, {"user", "2"}, {"assistant", "two"}});
  EXPECT_THAT(marked(golden("mistral"), system),
              HasSubstr("the answer messages[4] stands in the text cannot be told"));
  EXPECT_THAT(marked(golden("mistral"), system), HasSubstr("set data.loss: all"));
  EXPECT_EQ(marked(golden("mistral"), system, LossOn::everything),
            "[<s>[INST] 1[/INST] one</s>[INST] 2[/INST] two</s>]");
}

TEST(DataChat, RefusalsOfTheTemplateNameItAndItsLine) {
  EXPECT_THAT(marked(golden("llama2"), chat({{"user", "1"}, {"user", "2"}})),
              HasSubstr("llama2:10: the template refuses this: Roles must take turns"));
}

TEST(DataChat, ModelDirectoriesAreReadAndRefused) {
  const test::ScratchDir dir;
  const auto write = [&](const char* name, std::string_view text) { std::ofstream(dir / name) << text; };
  const auto error = [&] {
    const auto read = read_tokenizer_config(dir / ".");
    return read ? "" : read.error().message;
  };
  EXPECT_EQ(error(), "");
  write("tokenizer_config.json", R"({"bos_token": {"content": "<b>"}, "eos_token": "<e>", "pad_token": null,
    "chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]})");
  auto config = read_tokenizer_config(dir / ".");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->special_tokens,
            (std::map<std::string, std::string>{{"bos_token", "<b>"}, {"eos_token", "<e>"}}));
  EXPECT_EQ(marked(*config, two_turns, LossOn::everything), "[plain]");
  ChatRecord with_tools = two_turns;
  with_tools.tools = jinja::Value(jinja::List{jinja::Value("t")});
  EXPECT_EQ(marked(*config, with_tools, LossOn::everything), "[tools]");
  write("chat_template.jinja", "of the file");
  config = read_tokenizer_config(dir / ".");
  ASSERT_TRUE(config);
  EXPECT_EQ(marked(*config, two_turns, LossOn::everything), "[of the file]");
  for (const auto& [text, reason] :
       {std::pair{"[]", "must be a JSON object"}, std::pair{"{", "not valid JSON"},
        std::pair{R"({"bos_token": 1})", "bos_token must be text"},
        std::pair{R"({"chat_template": 1})", "chat_template must be text, or a list"},
        std::pair{R"({"chat_template": [{"name": "a"}]})", "chat_template[0] must be an object"}}) {
    write("tokenizer_config.json", text);
    EXPECT_THAT(error(), HasSubstr(reason));
    EXPECT_THAT(error(), HasSubstr("tokenizer_config.json"));
  }
}

// Two characters that stand beside each other are often one token here, so that spans cut through tokens.
class Pairs final : public TextEncoder {
 public:
  Result<void> encode(std::string_view text, Around around, std::vector<u32>& out) const override {
    if (around == Around::special) out.push_back(1);
    for (size_t i = 0; i < text.size();) {
      const bool pair = i + 1 < text.size() && text[i] >= 'a' && text[i + 1] >= 'a';
      out.push_back(static_cast<u8>(text[i]) + (pair ? 256 * static_cast<u8>(text[i + 1]) : 0));
      i += pair ? 2 : 1;
    }
    return {};
  }
  Result<void> encode_part(std::string_view text, bool, bool, Around around,
                           std::vector<u32>& out) const override {
    return encode(text, around, out);
  }
  size_t cut(std::string_view) const override { return 0; }
  std::string decode(std::span<const u32>) const override { return ""; }
  std::optional<u32> id_of(std::string_view) const override { return std::nullopt; }
  u32 vocab_size() const override { return 65536; }
};

// "L" for each learned token, "." for the others.
std::string learned(std::string_view text, std::vector<jinja::Span> spans, Around around = Around::nothing) {
  const Pairs encoder;
  std::vector<u32> whole, tokens;
  EXPECT_TRUE(encoder.encode(text, around, whole));
  EXPECT_TRUE(encode_spans(encoder, text, spans, around, tokens));
  EXPECT_EQ(whole.size(), tokens.size());
  std::string out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(id_of_token(tokens[i]), whole[i]);
    out += is_learned(tokens[i]) ? 'L' : '.';
  }
  return out;
}

TEST(DataChat, TokensAreThoseOfTheWholeText) {
  EXPECT_EQ(learned("AAabBBcd", {{4, 6}}), "...LL.");
  EXPECT_EQ(learned("AAabBBcd", {{3, 6}}), "..LLL.");  // through "ab": all of it
  EXPECT_EQ(learned("AAabBBcd", {{0, 3}}), "LLL...");
  EXPECT_EQ(learned("AAabBBcd", {}), "......");
  EXPECT_EQ(learned("AAabBBcd", {{0, 2}, {4, 8}}), "LL.LLL");
  EXPECT_EQ(learned("AAabBBcd", {{2, 8}}, Around::special), "...LLLL");
}

}  // namespace
}  // namespace tidepool
