// Parts of a conversation that are learned; cutting the text there changes no token.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "data/documents/answer_tokens.h"
#include "data/documents/chat_template.h"
#include "data/documents/tokenizer_encoder.h"
#include "huggingface/tokenizer/byte_alphabet.h"
#include "huggingface/tokenizer/tokenizer.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/places.h"

namespace tidepool::chat_test {

using testing::HasSubstr;

TokenizerConfig golden(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(source_file("tests/golden/chat/") + name + ".jinja").rdbuf();
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

// RETURNS: the text with [...] around learned parts.
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

TEST(DataChat, AnswersOfWeightZeroAreNotLearned) {
  ChatRecord chat = two_turns;
  chat.not_learned = {1};
  EXPECT_EQ(marked(golden("mistral"), chat), "<s>[INST] 1[/INST] one</s>[INST] 2[/INST][ two</s>]");
  EXPECT_THAT(marked(golden("generation"), chat), HasSubstr("assistant\none<|im_end|>"));
  EXPECT_THAT(marked(golden("generation"), chat), HasSubstr("assistant\n[two<|im_end|>]"));
  chat.not_learned = {3};
  EXPECT_EQ(marked(golden("mistral"), chat, LossOn::last_answer),
            "<s>[INST] 1[/INST][ one</s>][INST] 2[/INST] two</s>");
}

TEST(DataChat, TextThatATemplateDropsFromEarlierAnswersIsNotLearned) {
  const ChatRecord thinking = chat({{"user", "1"},
                                    {"assistant", "<think>\nhm\n</think>\n\none"},
                                    {"user", "2"},
                                    {"assistant", "<think>\nah\n</think>\n\ntwo"}});
  const std::string expected =
      "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n[one<|im_end|>\n]<|im_start|>user\n2<|im_end|>\n"
      "<|im_start|>assistant\n[<think>\nah\n</think>\n\ntwo<|im_end|>\n]";
  EXPECT_EQ(marked(golden("qwen3"), thinking), expected);
  // The prompt for an answer then ends in an empty thought, which answers in the middle lack.
  const std::string unthinking =
      marked(golden("qwen3"), two_turns, LossOn::answers, {.arguments = {"enable_thinking=false"}});
  EXPECT_THAT(unthinking, HasSubstr("assistant\n[one<|im_end|>\n]"));
  EXPECT_THAT(unthinking, HasSubstr("</think>\n\n[two<|im_end|>\n]"));
}

// R1's prompt for an answer begins a thought, which existing answers lack.
TEST(DataChat, AnAnswerThatBeginsLikeItsPromptIsLearnedFromItsFirstCharacter) {
  TokenizerConfig r1;
  r1.templates["default"] = {
      "r1",
      "{% for m in messages %}{{ '<U>' if m.role == 'user' else '<A>' }}{{ m.content | trim }}"
      "{{ '<E>' if m.role == 'assistant' }}{% endfor %}{% if add_generation_prompt %}<A><think>\n{% endif "
      "%}"};
  EXPECT_EQ(marked(r1, chat({{"user", "1"}, {"assistant", "<table>"}, {"user", "2"}, {"assistant", " <th"}})),
            "<U>1<A>[<table><E>]<U>2<A>[<th<E>]");
  EXPECT_EQ(marked(r1, chat({{"user", "1"}, {"assistant", "one"}})), "<U>1<A>[one<E>]");
  EXPECT_EQ(marked(r1, chat({{"user", "1"}, {"assistant", "A>"}})), "<U>1<A>[A><E>]");
  EXPECT_EQ(marked(r1, chat({{"user", "1"}, {"assistant", "<think>\nhm</think>"}})),
            "<U>1<A><think>\n[hm</think><E>]");
  // Text that a template removes from an answer is not its beginning.
  r1.templates["default"].text.replace(r1.templates["default"].text.find("m.content | trim"), 16,
                                       "m.content.split('</think>')[-1]");
  EXPECT_EQ(marked(r1, chat({{"user", "1"}, {"assistant", "<think>hm</think><answer>4"}})),
            "<U>1<A>[<answer>4<E>]");
  EXPECT_EQ(marked(r1, chat({{"user", "1"}, {"assistant", "<think>hm</think>"}})), "<U>1<A>[<E>]");
  // The same in the middle, where qwen3 omits a thought that its prompt contains.
  EXPECT_THAT(
      marked(golden("qwen3"), chat({{"user", "1"}, {"assistant", "<t>"}, {"user", "2"}, {"assistant", "<"}}),
             LossOn::answers, {.arguments = {"enable_thinking=false"}}),
      HasSubstr("assistant\n[<t><|im_end|>\n]"));
}

// Phi's template ends in an eos_token after the last message of any role. Regression: only the ">" of the
// quotation was learned, because "</s>" ends in ">".
TEST(DataChat, AnEosBehindTheLastMessageIsLearnedThereAlone) {
  TokenizerConfig phi;
  phi.special_tokens = {{"eos_token", "</s>"}};
  const std::string front = "{% for m in messages %}{{ '<U>' if m.role == 'user' else '<A>' }}";
  const std::string content =
      "{{ m.content.split('</think>')[-1] if not loop.last else m.content }}<|end|>\n";
  const auto with = [&](const std::string& text, const std::string& end) {
    phi.templates["default"] = {"phi", front + text + "{% endfor %}" + end};
    return phi;
  };
  const std::string end = "{% if add_generation_prompt %}<A>{% else %}{{ eos_token }}{% endif %}";
  const ChatRecord quoting =
      chat({{"user", "1"}, {"assistant", "> one"}, {"user", "2"}, {"assistant", "> two"}});
  const std::string learned = "<U>1<|end|>\n<A>[> one<|end|>\n]<U>2<|end|>\n<A>[> two<|end|>\n</s>]";
  EXPECT_EQ(marked(with("{{ m.content }}<|end|>\n", end), quoting), learned);
  const ChatRecord thinking =
      chat({{"user", "1"}, {"assistant", "hm</think>> one"}, {"user", "2"}, {"assistant", "> two"}});
  EXPECT_EQ(marked(with(content, end), thinking), learned);
}

// A template that changes a message once more messages follow, and answers in its text.
TEST(DataChat, AnswersThatAreWrittenDifferentlyLaterAreFoundInTheTurnsOfTheTemplatesLoop) {
  TokenizerConfig config;
  config.special_tokens = {{"eos_token", "</s>"}};
  const auto with = [&](const std::string& turn) {
    config.templates["default"] = {"t", "{% for m in messages %}{{ '<U>' if m.role == 'user' else '<A>' }}" +
                                            turn +
                                            "{% endfor %}{% if add_generation_prompt %}<A>{% endif %}"};
    return config;
  };
  const ChatRecord record =
      chat({{"user", "1"}, {"assistant", "> a\na\n"}, {"user", "2"}, {"assistant", "two"}});
  // Another end in the middle, which may begin as the last one does.
  EXPECT_EQ(marked(with("{{ m.content }}{{ '<end>' if m.role == 'user' or not loop.last else eos_token }}"),
                   record),
            "<U>1<end><A>[> a\na\n<end>]<U>2<end><A>[two</s>]");
  EXPECT_EQ(marked(with("{{ m.content }}{{ '<end>' if m.role == 'user' or not loop.last else '<return>' }}"),
                   record),
            "<U>1<end><A>[> a\na\n<end>]<U>2<end><A>[two<return>]");
  // White space that is removed in the middle.
  EXPECT_EQ(marked(with("{{ m.content | trim if not loop.last else m.content }}{{ eos_token if m.role == "
                        "'assistant' }}"),
                   record),
            "<U>1<A>[> a\na</s>]<U>2<A>[two</s>]");
  // An answer has no text that only later messages add.
  EXPECT_EQ(marked(with("{{ m.content }}{{ '<sep>' if not loop.last }}"), record),
            "<U>1<sep><A>[> a\na\n]<sep><U>2<sep><A>[two]");
  // Messages before the answer that are shortened, and answers of which nothing is left.
  const std::string short_user =
      "{{ m.content if loop.revindex < 3 or m.role == 'assistant' else '...' }}<end>";
  EXPECT_EQ(marked(with(short_user), record), "<U>...<end><A>[> a\na\n<end>]<U>2<end><A>[two<end>]");
  config.templates["default"].text.replace(config.templates["default"].text.find("in messages"), 11,
                                           "in messages[-2:]");
  EXPECT_EQ(marked(config, record), "<U>2<end><A>[two<end>]");
}

TEST(DataChat, TextOfOtherMessagesWithinTheTurnOfAnAnswerIsRefused) {
  TokenizerConfig config;
  config.templates["default"] = {
      "t",
      "{% for m in messages %}{% if m.role == 'user' %}<U>{{ m.content if loop.last else '...' }}{% else "
      "%}<A>{{ "
      "m.content }}({{ loop.nextitem.content if not loop.last }})<end>{% endif %}{% endfor %}{% if "
      "add_generation_prompt %}<A>{% endif %}"};
  EXPECT_THAT(
      marked(config, chat({{"user", "1"}, {"assistant", "one"}, {"user", "2"}, {"assistant", "two"}})),
      HasSubstr("t: cannot find the answer messages[1] in the text"));
}

// As Gemma 4's: a tool's result comes before the words that the answer has beside its call.
TEST(DataChat, AToolsResultWithinTheTurnOfAnAnswerIsNotLearned) {
  TokenizerConfig config;
  config.templates["default"] = {
      "t",
      "{% for m in messages %}{% if m.role == 'user' %}<U>{{ m.content }}{% elif m.role == 'assistant' %}"
      "{% if loop.first or loop.previtem.role != 'tool' %}<A>{% endif %}{% set next = loop.nextitem %}"
      "{% if next and next.role == 'tool' %}call({{ next.content }}){% endif %}{{ m.content }}"
      "{% if not (next and next.role == 'tool') %}<end>{% endif %}{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<A>{% endif %}"};
  EXPECT_THAT(
      marked(config, chat({{"user", "1"}, {"assistant", "look"}, {"tool", "high"}, {"assistant", "two"}})),
      HasSubstr("t: cannot find the answer messages[1] in the text"));
}

TEST(DataChat, AFirstMessageThatIsAnAnswerIsLearnedFromItsFirstCharacter) {
  TokenizerConfig config;
  const ChatRecord record = chat({{"assistant", "Welcome."}, {"user", "1"}, {"assistant", "one"}});
  // As Llama 3's: the begin of the text is written with the first message.
  config.templates["default"] = {"t",
                                 "{% for m in messages %}{% set head = '<|h|>' + m.role + '<|/h|>\n' %}{{ "
                                 "('<|b|>' if loop.first else '') + "
                                 "head + m.content + '<end>' }}{% endfor %}{% if add_generation_prompt "
                                 "%}<|h|>assistant<|/h|>\n{% endif %}"};
  EXPECT_EQ(
      marked(config, record),
      "<|b|><|h|>assistant<|/h|>\n[Welcome.<end>]<|h|>user<|/h|>\n1<end><|h|>assistant<|/h|>\n[one<end>]");
  // As Qwen2.5-VL's: so is a system prompt.
  config.templates["default"] = {
      "t",
      "{% for m in messages %}{% if loop.first and m.role != 'system' %}<s>system\nHelp.<end>\n{% endif %}"
      "<s>{{ m.role }}\n{{ m.content }}<end>\n{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% "
      "endif %}"};
  EXPECT_EQ(
      marked(config, record),
      "<s>system\nHelp.<end>\n<s>assistant\n[Welcome.<end>\n]<s>user\n1<end>\n<s>assistant\n[one<end>\n]");
  // As Phi-3's: without messages and without the prompt another mark is written, which begins as the prompt
  // does.
  config.templates["default"] = {
      "t",
      "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>\n{% else %}<|endoftext|>{% endif %}"};
  EXPECT_EQ(
      marked(config, record),
      "<|assistant|>\n[Welcome.<|end|>\n]<|user|>\n1<|end|>\n<|assistant|>\n[one<|end|>\n<|endoftext|>]");
}

// Qwen3's template keeps reasoning only behind the last message of the user, and closes tool results as the
// user's. With more turns, the messages before an answer alone are written with more reasoning than in the
// whole.
TEST(DataChat, AnswersOfAgentTracesAreFoundWhereEarlierReasoningIsDropped) {
  TokenizerConfig config;
  config.templates["default"] = {
      "agent",
      "{%- set ns = namespace(last=-1) %}{%- for m in messages %}{%- if m.role == 'user' %}{%- set ns.last = "
      "loop.index0 %}{%- endif %}{%- endfor %}{%- for m in messages %}{%- if m.role == 'assistant' %}{{- "
      "'<A>\n' "
      "}}{%- if loop.index0 > ns.last and m.reasoning_content %}{{- '<think>' + m.reasoning_content + "
      "'</think>' }}{%- endif %}{{- m.content }}{%- for c in m.tool_calls or [] %}{{- '<call>' + c.name + "
      "'</call>' }}{%- endfor %}{{- '<E>\n' }}{%- elif m.role == 'tool' %}{{- '<U>\n<tool>' + m.content + "
      "'</tool><E>\n' }}{%- else %}{{- '<U>\n' + m.content + '<E>\n' }}{%- endif %}{%- endfor %}{%- if "
      "add_generation_prompt %}{{- '<A>\n' }}{%- endif %}"};
  ChatRecord record = chat({{"user", "a"},
                            {"assistant", ""},
                            {"tool", "7"},
                            {"assistant", "r3"},
                            {"user", "b"},
                            {"assistant", "r5"},
                            {"tool", "8"},
                            {"assistant", "r7"}});
  for (const u32 i : {1u, 3u, 5u, 7u}) {
    jinja::Dict message = *record.messages[i].dict();
    message.set("reasoning_content", fmt::format("t{}", i));
    jinja::Dict call;
    call.set("name", "f");
    if (i % 4 == 1) message.set("tool_calls", jinja::Value(jinja::List{jinja::Value(std::move(call))}));
    record.messages[i] = jinja::Value(std::move(message));
  }
  EXPECT_EQ(marked(config, record),
            "<U>\na<E>\n<A>\n[<call>f</call><E>\n]<U>\n<tool>7</tool><E>\n<A>\n[r3<E>\n]<U>\nb<E>\n<A>\n["
            "<think>t5</think>r5<call>f</call><E>\n]<U>\n<tool>8</tool><E>\n<A>\n[<think>t7</think>r7<E>\n]");
  EXPECT_EQ(
      marked(config, record, LossOn::last_answer).find('['),
      marked(config, record, LossOn::everything).size() - 2 - std::string("<think>t7</think>r7<E>\n").size());
}

TEST(DataChat, VariablesOfAChatAreNoArguments) {
  for (const char* argument : {"messages=3", "tools=[]", "documents=x", "add_generation_prompt=true"})
    EXPECT_THAT(marked(golden("chatml"), two_turns, LossOn::answers, {.arguments = {argument}}),
                HasSubstr("cannot be an argument"));
}

// Mistral's template puts the system's words before the last message, and omits them if that message is an
// answer: the text before an answer alone is not the text before it in the whole.
TEST(DataChat, AnswersAreFoundWhereTheTemplateMovesTheSystemsWords) {
  const ChatRecord system =
      chat({{"system", "s"}, {"user", "1"}, {"assistant", "one"}, {"user", "2"}, {"assistant", "two"}});
  EXPECT_EQ(marked(golden("mistral"), system), "<s>[INST] 1[/INST][ one</s>][INST] 2[/INST][ two</s>]");
  EXPECT_EQ(marked(golden("mistral"), system, LossOn::everything),
            "[<s>[INST] 1[/INST] one</s>[INST] 2[/INST] two</s>]");
}

TEST(DataChat, UnclearAnswersAreRefusedWithAdvice) {
  // This template collects its text before it writes it, and shortens what is not the last turn.
  TokenizerConfig config;
  config.templates["default"] = {
      "t",
      "{% set ns = namespace(text='') %}{% for m in messages %}{% set ns.text = ns.text + '<' + m.role + '>' "
      "+ "
      "(m.content if loop.revindex < 3 else m.content[:1]) %}{% endfor %}{{ ns.text }}{{ '<assistant>' if "
      "add_generation_prompt }}"};
  const ChatRecord record =
      chat({{"user", "one"}, {"assistant", "two"}, {"user", "three"}, {"assistant", "four"}});
  EXPECT_THAT(marked(config, record), HasSubstr("t: cannot find the answer messages[3] in the text"));
  EXPECT_THAT(marked(config, record), HasSubstr("set data.loss: all"));
}

TEST(DataChat, AChatWhoseAnswersCostTooMuchIsRefusedWithAdvice) {
  ChatRecord record;
  for (u32 i = 0; i < 6000; ++i) {
    jinja::Dict message;
    message.set("role", i % 2 == 0 ? "user" : "assistant");
    message.set("content", "a");
    record.messages.emplace_back(std::move(message));
  }
  EXPECT_THAT(marked(golden("chatml"), record),
              AllOf(HasSubstr("takes too many runs of the template"), HasSubstr("6000 messages"),
                    HasSubstr("set data.loss: last_answer or all")));
  EXPECT_THAT(marked(golden("chatml"), record, LossOn::last_answer), testing::EndsWith("[a<|im_end|>\n]"));
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
  EXPECT_EQ(config->templates.size(), 1u);  // the same as transformers
  std::filesystem::create_directory(dir / "additional_chat_templates");
  write("additional_chat_templates/tool_use.jinja", "tools of the folder");
  write("additional_chat_templates/notes.txt", "no template");
  config = read_tokenizer_config(dir / ".");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->templates.size(), 2u);
  EXPECT_EQ(marked(*config, two_turns, LossOn::everything), "[of the file]");
  EXPECT_EQ(marked(*config, with_tools, LossOn::everything), "[tools of the folder]");
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

// RETURNS: "L" for each learned token, "." for the others; ids are those of the whole text.
std::string learned(const TextEncoder& encoder, std::string_view text, std::vector<jinja::Span> spans,
                    Around around = Around::nothing) {
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

const std::string tokenizers = source_file("tests/golden/tokenizers/");

TEST(DataChat, ATokenIsLearnedIfAnyOfItsBytesStandsInAnAnswer) {
  const auto bytes = create_byte_encoder();
  EXPECT_EQ(learned(*bytes, "abcdef", {{0, 2}, {4, 6}}), "LL..LL");
  EXPECT_EQ(learned(*bytes, "abcdef", {}), "......");
  EXPECT_EQ(learned(*bytes, "abcdef", {{3, 3}}), "......");
  // BOS belongs to the following text, and so does a leading ▁.
  const auto llama2 = open_tokenizer_encoder(tokenizers + "llama2.json").value();
  EXPECT_THAT(learned(*llama2, "the plan", {{3, 8}}, Around::special), testing::MatchesRegex("\\.\\.+L+"));
  EXPECT_THAT(learned(*llama2, "the plan", {{0, 3}}, Around::special), testing::MatchesRegex("LL+\\.+"));
}

// Merges far back depend on the following text, so tokens of the text up to a border may differ from the
// first tokens of the whole. Regression: "sta|rt|swith" was [st, ar, ts, w, ith] and nothing was learned.
TEST(DataChat, BordersInsideOfTokensAreFoundByBytesWhereverTheyLie) {
  const std::string text =
      "starts with transformers, tokenizing documents where Gr\u00fc\u00dfe \u4e2d\u6587 stand";
  for (const char* style : {"gpt2", "qwen", "llama3", "tekken"}) {
    const auto tokenizer = Tokenizer::open(tokenizers + style + ".json").value();
    const auto encoder = open_tokenizer_encoder(tokenizers + style + ".json").value();
    std::vector<u32> ids;
    ASSERT_TRUE(tokenizer->encode(text, Special::none, ids));
    for (u64 begin = 0; begin < text.size(); ++begin) {
      for (u64 end = begin + 1; end <= text.size(); ++end) {
        std::string expected;
        u64 at = 0;
        for (const u32 id : ids) {
          const u64 bytes = spelled_bytes(tokenizer->token(id))->size();
          expected += at < end && at + bytes > begin ? 'L' : '.';
          at += bytes;
        }
        ASSERT_EQ(at, text.size());
        ASSERT_EQ(learned(*encoder, text, {{begin, end}}), expected) << style << ' ' << begin << ' ' << end;
      }
    }
  }
}

}  // namespace tidepool::chat_test
