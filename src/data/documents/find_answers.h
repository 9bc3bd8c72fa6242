// AnswerFinder finds the answers of a conversation in its text, for a template that does not mark them.
//
// An answer begins where the rendering of the messages before it, with the prompt for an answer, ends; it
// ends where the rendering of the messages up to it ends. Some templates write a message differently once
// more messages follow: Qwen3's drops the thinking of earlier turns, gpt-oss's ends an earlier answer with
// another token. Then the renderings of the beginnings are no beginnings of the whole text, and an answer is
// the text that the template's loop over the messages wrote for it, less the prompt. If there is no such
// loop, the kept text must be the end of the written text. An answer that the template leaves out of the text
// has no place.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/records/record.h"
#include "huggingface/jinja/template.h"

namespace tidepool {

class AnswerFinder {
 public:
  // Renders the first `messages` messages, and the prompt for an answer if `prompt`.
  using Render = std::function<Result<jinja::Rendered>(const ChatRecord&, size_t messages, bool prompt)>;
  // `name`: of the template, for errors. `end_of_text`: text that the template may write behind the last
  // message; may be empty. `steps_left`: 0 once renderings have taken all steps that they may take. REQUIRES:
  // all of them outlive the finder.
  AnswerFinder(const ChatRecord& chat, const jinja::Rendered& whole, Render render, std::string_view name,
               std::string_view end_of_text, const u64& steps_left);

  // RETURNS: spans of answers that are learned, ascending and disjoint; only the last if `last_only`.
  Result<std::vector<jinja::Span>> find(bool last_only);

 private:
  using Answer = std::optional<jinja::Span>;  // none: the text does not have it
  Result<Answer> answer(size_t message);
  Result<Answer> answer_of_turn(size_t message, const Result<jinja::Rendered>& asked,
                                const Result<jinja::Rendered>& answered);
  Result<std::string> prompt_before(size_t message, const Result<jinja::Rendered>& asked);
  Result<jinja::Span> answer_by_ends(size_t message, const jinja::Rendered& asked,
                                     const jinja::Rendered& answered);
  Result<std::optional<size_t>> behind_prompt(size_t message, size_t begin, std::string_view turn,
                                              std::string_view prompt);
  Result<bool> holds_next_message(size_t message, const jinja::Span& turn);
  Result<size_t> begin_between(size_t message, size_t begin, size_t found);
  Result<bool> is_left_out(size_t message);
  Result<std::string_view> end_of_all(size_t message);
  Result<std::string> with_another_answer(size_t message, std::string_view with);
  Error unclear(size_t message, std::string_view why) const;
  bool out_of_steps() const { return steps_left_ == 0; }

  const ChatRecord& chat_;
  const std::string& whole_;
  const Render render_;
  const std::string_view name_, end_of_text_;
  const u64& steps_left_;
  std::vector<std::optional<jinja::Span>> turns_;  // by message; none: no turn, or several
};

}  // namespace tidepool
