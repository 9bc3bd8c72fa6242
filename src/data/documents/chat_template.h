// ChatTemplate renders a conversation as one text, and finds the parts that the model is to learn to write.
//
// If the template marks these parts ({% generation %}), they are the answers. If not, AnswerFinder finds
// them.
#pragma once

#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/documents/tokenizer_config.h"
#include "data/records/record.h"
#include "huggingface/jinja/template.h"

namespace tidepool {

enum class LossOn : u8 { answers, last_answer, everything };

struct RenderedChat {
  std::string text;
  std::vector<jinja::Span> answers;  // ascending and disjoint
  // For a completion: the rendering of its prompt, with the prompt for an answer. All tokens are learned
  // behind those with which this text and `text` both begin; `answers` is empty.
  std::optional<std::string> prompt;
};

// Value of data.chat_template for the built-in template.
inline constexpr std::string_view builtin_chat_template = "chatml";

struct ChatTemplateOptions {
  std::string file;  // replaces the model directory's; or builtin_chat_template; empty: the directory's
  std::vector<std::string> arguments;  // "enable_thinking=false": name=JSON, or name=TEXT
};

// Text of data.chat_template: of the file, or of the built-in template.
Result<TokenizerConfig::Source> read_chat_template(const std::string& file);

class ChatTemplate {
 public:
  // RETURNS: null if there is no template.
  // Error: bad_input, naming the unsupported construct and its line.
  static Result<std::unique_ptr<const ChatTemplate>> open(const TokenizerConfig&, const ChatTemplateOptions&);

  // THREADS: any, at any time.
  // Error: names the template and its line; the caller adds the record's place.
  Result<RenderedChat> render(const ChatRecord&, LossOn) const;

  // Renders all messages and the beginning of an answer to them: the prompt for generating.
  Result<std::string> prompt(const ChatRecord&) const;

  // Equal for the same template and arguments: they give the same text.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  ChatTemplate() = default;
  const jinja::Template& chosen(const ChatRecord&) const;
  // Limit of steps for all renderings of one record, which grow with the square of its answers: a few
  // seconds.
  static constexpr u64 record_steps_max = 4 * jinja::Template::steps_max;
  Result<jinja::Rendered> render_first(const ChatRecord&, size_t messages, bool prompt_for_answer,
                                       u64& steps_left) const;
  Result<std::vector<jinja::Span>> found_answers(const ChatRecord&, LossOn, const jinja::Rendered& whole,
                                                 u64& steps_left) const;
  Result<std::string> prompt_of_completion(const ChatRecord&, const std::string& whole,
                                           u64& steps_left) const;
  bool takes_lists(const ChatRecord&) const;

  std::unique_ptr<const jinja::Template> plain_, with_tools_;  // with_tools_ may be null
  jinja::Dict variables_;
  std::string fingerprint_;
};

}  // namespace tidepool
