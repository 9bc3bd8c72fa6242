// A conversation as one text, and which parts of it the model is to learn to write.
//
// Where the template marks them ({% generation %}), those parts are the answers. Where it does not, they are
// found by rendering beginnings of the conversation: answer i begins where the messages before it, with the
// prompt for an answer, end, and ends where the messages up to it end. A template that writes earlier answers
// otherwise once more messages follow (Qwen3's leaves out what they thought, Phi's an eos_token behind all)
// is followed as far as what it keeps is the end of what it wrote; one that writes earlier *other* messages
// otherwise is refused, for then nothing tells where an answer begins.
#pragma once

#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/documents/record.h"
#include "data/documents/tokenizer_config.h"
#include "huggingface/jinja/template.h"

namespace tidepool {

enum class LossOn : u8 { answers, last_answer, everything };

struct RenderedChat {
  std::string text;
  std::vector<jinja::Span> answers;  // ascending, apart from each other
};

// What stands in data.chat_template for the built-in template.
inline constexpr std::string_view builtin_chat_template = "chatml";

struct ChatTemplateOptions {
  std::string file;  // in place of the model directory's; or builtin_chat_template; empty: the directory's
  std::vector<std::string> arguments;  // "enable_thinking=false": name=JSON, or plain text
};

// data.chat_template as a text: that of the file, or the built-in one.
Result<TokenizerConfig::Source> read_chat_template(const std::string& file);

class ChatTemplate {
 public:
  // null where there is none. ErrorKind::bad_input: a template outside of what is supported, by name and
  // line.
  static Result<std::unique_ptr<const ChatTemplate>> open(const TokenizerConfig&, const ChatTemplateOptions&);

  // Any thread may call at any time. Errors name the template and its line; the caller says which record.
  Result<RenderedChat> render(const ChatRecord&, LossOn) const;

  // All messages, and the beginning of an answer to them.
  Result<std::string> prompt(const ChatRecord&) const;

  // Same template and arguments, same text.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  ChatTemplate() = default;
  const jinja::Template& chosen(const ChatRecord&) const;
  // Of all renderings of a record together, which grow with the square of its answers: some seconds.
  static constexpr u64 record_steps_max = 4 * jinja::Template::steps_max;
  Result<jinja::Rendered> render_first(const ChatRecord&, size_t messages, bool prompt_for_answer,
                                       u64& steps_left) const;
  Result<std::vector<jinja::Span>> answers_by_prefixes(const ChatRecord&, LossOn, const std::string& whole,
                                                       u64& steps_left) const;
  Result<size_t> answer_begin(const ChatRecord&, size_t message, std::string_view whole, size_t begin,
                              size_t found, u64& steps_left) const;
  Result<std::string_view> end_of_all(const ChatRecord&, size_t message, u64& steps_left) const;
  Result<std::string> with_another_answer(const ChatRecord&, size_t message, std::string_view with,
                                          u64& steps_left) const;
  Result<jinja::Span> answer_by_prefixes(const ChatRecord&, size_t message, const std::string& whole,
                                         u64& steps_left) const;

  std::unique_ptr<const jinja::Template> plain_, with_tools_;  // with_tools_ may be null
  jinja::Dict variables_;
  std::string fingerprint_;
};

}  // namespace tidepool
