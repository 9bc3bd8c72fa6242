#include "data/documents/find_answers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/cut_text.h"

namespace tidepool {

namespace {

size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

size_t common_suffix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin());
}

// Length of the longest end of `text` that `pattern` begins with (Knuth, Morris and Pratt: linear time).
size_t longest_suffix_that_begins(std::string_view text, std::string_view pattern) {
  std::vector<size_t> border(pattern.size() + 1, 0);
  const auto follow = [&](size_t matched, char c) {
    while (matched > 0 && (matched == pattern.size() || pattern[matched] != c)) matched = border[matched];
    return matched < pattern.size() && pattern[matched] == c ? matched + 1 : matched;
  };
  for (size_t i = 1; i < pattern.size(); ++i) border[i + 1] = follow(border[i], pattern[i]);
  size_t matched = 0;
  for (const char c : text) matched = pattern.empty() ? 0 : follow(matched, c);
  return matched;
}

std::string_view text_in(const jinja::Rendered& rendered, const jinja::Span& span) {
  return std::string_view(rendered.text).substr(span.begin, span.end - span.begin);
}

// An answer that consists of one letter that is not in `text`; undefined if all letters are.
jinja::Value answer_unlike(std::string_view text) {
  constexpr std::string_view letters = "xyzqjkvwbgXYZQJKVWBG";
  const size_t at = letters.find_first_not_of(text);
  if (at == letters.npos) return {};
  jinja::Dict out;
  out.set("role", std::string("assistant"));
  out.set("content", std::string(letters.substr(at, 1)));
  return out;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

// The one text of each message. A loop that only looks at messages may write blanks: they are no turns.
std::vector<std::optional<jinja::Span>> turns_of(const jinja::Rendered& rendered, size_t messages) {
  std::vector<std::optional<jinja::Span>> out(messages);
  std::vector<bool> several(messages);
  for (const jinja::Turn& turn : rendered.turns) {
    if (turn.message >= messages || is_blank(text_in(rendered, turn.span))) continue;
    several[turn.message] = out[turn.message].has_value();
    out[turn.message] = turn.span;
  }
  for (size_t i = 0; i < messages; ++i) {
    if (several[i]) out[i].reset();
  }
  return out;
}

// Text behind the last turn; none: there is no turn.
std::optional<std::string_view> behind_turns(const jinja::Rendered& rendered) {
  if (rendered.turns.empty()) return std::nullopt;
  const u64 end =
      std::ranges::max(rendered.turns, {}, [](const auto& turn) { return turn.span.end; }).span.end;
  return std::string_view(rendered.text).substr(end);
}

}  // namespace

AnswerFinder::AnswerFinder(const ChatRecord& chat, const jinja::Rendered& whole, Render render,
                           std::string_view name, std::string_view end_of_text, const u64& steps_left)
    : chat_(chat),
      whole_(whole.text),
      render_(std::move(render)),
      name_(name),
      end_of_text_(end_of_text),
      steps_left_(steps_left),
      turns_(turns_of(whole, chat.messages.size())) {}

Error AnswerFinder::unclear(size_t message, std::string_view why) const {
  return {ErrorKind::bad_input,
          fmt::format("{}: cannot find the answer messages[{}] in the text, because {}; mark answers in the "
                      "template with {{% generation %}}, or set data.loss: all",
                      name_, message, why)};
}

Result<std::vector<jinja::Span>> AnswerFinder::find(bool last_only) {
  std::vector<jinja::Span> out;
  for (size_t i = chat_.messages.size(); i-- > 0;) {
    if (!is_answer(chat_.messages[i]) || std::ranges::binary_search(chat_.not_learned, i)) continue;
    const Result<Answer> found = answer(i);
    if (!found && out_of_steps())
      return Error{
          ErrorKind::bad_input,
          fmt::format("{}: finding the answers of a chat this long ({} messages) takes too many runs of "
                      "the template; mark answers in the template with {{% generation %}}, cut the chat "
                      "into several, or set data.loss: last_answer or all",
                      name_, chat_.messages.size())};
    TRY_ASSIGN(const Answer span, found);
    if (span && span->begin < span->end) out.push_back(*span);
    if (last_only) break;
  }
  std::ranges::sort(out, {}, &jinja::Span::begin);
  for (size_t i = 1; i < out.size(); ++i) {  // two adjacent answers may both claim the text between them
    out[i].begin = std::max(out[i].begin, out[i - 1].end);
    out[i].end = std::max(out[i].end, out[i].begin);
  }
  return out;
}

Result<AnswerFinder::Answer> AnswerFinder::answer(size_t message) {
  const Result<jinja::Rendered> asked = render_(chat_, message, true);
  if (!asked && out_of_steps()) return asked.error();
  const Result<jinja::Rendered> answered = render_(chat_, message + 1, false);
  if (!answered && out_of_steps()) return answered.error();
  if (asked && answered && whole_.starts_with(asked->text) && whole_.starts_with(answered->text) &&
      answered->text.size() >= asked->text.size())
    return Answer(jinja::Span{asked->text.size(), answered->text.size()});
  TRY_ASSIGN(const Answer of_turn, answer_of_turn(message, asked, answered));
  if (of_turn) return of_turn;
  if (std::ranges::any_of(turns_, [](const auto& turn) { return turn.has_value(); })) {
    TRY_ASSIGN(const bool left_out, is_left_out(message));
    if (left_out) return Answer();
  }
  if (!asked)
    return unclear(message, fmt::format("the template refuses the messages before the answer alone ({})",
                                        asked.error().message));
  if (!answered)
    return unclear(message, fmt::format("the template refuses the messages up to the answer alone ({})",
                                        answered.error().message));
  TRY_ASSIGN(const jinja::Span span, answer_by_ends(message, *asked, *answered));
  return Answer(span);
}

// Finds an answer in the text that the template's loop wrote for its message.
// RETURNS: none if there is no such text, or if text of other messages lies in it.
Result<AnswerFinder::Answer> AnswerFinder::answer_of_turn(size_t message,
                                                          const Result<jinja::Rendered>& asked,
                                                          const Result<jinja::Rendered>& answered) {
  if (!turns_[message]) return Answer();
  jinja::Span span = *turns_[message];
  const std::string_view turn = std::string_view(whole_).substr(span.begin, span.end - span.begin);
  if (message + 1 == chat_.messages.size()) {
    span.end = whole_.size();
  } else if (const Answer alone = answered ? turns_of(*answered, message + 1)[message] : Answer()) {
    const std::string_view first = text_in(*answered, *alone),
                           behind = std::string_view(answered->text).substr(alone->end);
    if (turn.starts_with(first)) {  // what follows came with later messages
      span.end = span.begin + first.size();
      if (std::string_view(whole_).substr(span.end).starts_with(behind)) span.end += behind.size();
    } else if (turn.size() > first.size() &&
               common_prefix(turn, first) + common_suffix(turn, first) >= first.size()) {
      return Answer();
    } else {
      TRY_ASSIGN(const bool holds_it, holds_next_message(message, span));
      if (holds_it) return Answer();
    }
  }
  TRY_ASSIGN(const std::string prompt, prompt_before(message, asked));
  const size_t shared = common_prefix(turn, prompt);
  if (shared == prompt.size()) {
    span.begin += shared;
  } else {
    TRY_ASSIGN(const std::optional<size_t> behind, behind_prompt(message, span.begin, turn, prompt));
    if (behind) {
      span.begin = *behind;
    } else {
      TRY_ASSIGN(span.begin, begin_between(message, span.begin, span.begin + shared));
    }
  }
  span.end = std::max(span.begin, span.end);
  return Answer(span);
}

// True if the template writes the message behind an answer, such as a tool's result, into the answer's turn.
Result<bool> AnswerFinder::holds_next_message(size_t message, const jinja::Span& turn) {
  const jinja::Value& next = chat_.messages[message + 1];
  const jinja::Value unlike =
      answer_unlike(std::string_view(whole_).substr(turn.begin, turn.end - turn.begin));
  if (is_answer(next) || unlike.dict() == nullptr) return false;
  ChatRecord other = chat_;
  jinja::Dict changed = *next.dict();
  changed.set("content", *unlike.dict()->find("content"));
  other.messages[message + 1] = jinja::Value(std::move(changed));
  const Result<jinja::Rendered> rendered = render_(other, chat_.messages.size(), false);
  if (!rendered && out_of_steps()) return rendered.error();
  if (!rendered || rendered->text == whole_) return false;
  return common_prefix(whole_, rendered->text) < turn.end &&
         whole_.size() - common_suffix(whole_, rendered->text) > turn.begin;
}

// RETURNS: text that the template writes behind the messages before an answer, to ask for the answer.
Result<std::string> AnswerFinder::prompt_before(size_t message, const Result<jinja::Rendered>& asked) {
  if (!asked) {  // the template refuses these messages alone: the prompt behind all messages is taken
    TRY_ASSIGN(const jinja::Rendered of_all, render_(chat_, chat_.messages.size(), true));
    return std::string(behind_turns(of_all).value_or(""));
  }
  if (const auto behind = behind_turns(*asked)) return std::string(*behind);
  const Result<jinja::Rendered> bare = render_(chat_, message, false);
  if (!bare && out_of_steps()) return bare.error();
  const size_t shared = bare ? common_prefix(bare->text, asked->text) : common_prefix(whole_, asked->text);
  return asked->text.substr(shared);
}

// True if the template leaves the message out: another answer in its place changes nothing.
Result<bool> AnswerFinder::is_left_out(size_t message) {
  const jinja::Value answer = answer_unlike(whole_);
  if (answer.dict() == nullptr) return false;
  ChatRecord other = chat_;
  other.messages[message] = answer;
  const Result<jinja::Rendered> rendered = render_(other, chat_.messages.size(), false);
  if (!rendered && out_of_steps()) return rendered.error();
  return rendered && rendered->text == whole_;
}

// Finds the begin of an answer before which the template writes more than the prompt: a first message that is
// an answer may bring the begin of the text, or a system prompt. RETURNS: none if the prompt is not in the
// turn, before the text that changes if another answer takes its place.
Result<std::optional<size_t>> AnswerFinder::behind_prompt(size_t message, size_t begin, std::string_view turn,
                                                          std::string_view prompt) {
  const jinja::Value answer = answer_unlike(turn);
  if (turn.find(prompt) == turn.npos || answer.dict() == nullptr) return std::optional<size_t>();
  ChatRecord other = chat_;
  other.messages[message] = answer;
  const Result<jinja::Rendered> rendered = render_(other, chat_.messages.size(), false);
  if (!rendered && out_of_steps()) return rendered.error();
  const size_t same = rendered ? common_prefix(whole_, rendered->text) : 0;
  if (same < begin + prompt.size()) return std::optional<size_t>();
  const size_t at = turn.rfind(prompt, same - begin - prompt.size());
  return at == turn.npos ? std::optional<size_t>() : begin + at + prompt.size();
}

// Finds the begin of an answer. The prompt for an answer ("<think>") and the answer itself ("<table>") may
// begin alike: then `found`, where the two differ, lies inside the answer. The answer begins between `begin`
// and `found`, where the text changes if another answer takes its place.
Result<size_t> AnswerFinder::begin_between(size_t message, size_t begin, size_t found) {
  const jinja::Value answer = answer_unlike(std::string_view(whole_).substr(begin, found - begin));
  if (found == begin || answer.dict() == nullptr) return found;
  ChatRecord other = chat_;
  other.messages[message] = answer;
  const Result<jinja::Rendered> rendered = render_(other, chat_.messages.size(), false);
  if (!rendered && out_of_steps()) return rendered.error();
  return rendered ? std::clamp(common_prefix(whole_, rendered->text), begin, found) : found;
}

// Finds an answer whose written text ends as the text of the answer alone does.
Result<jinja::Span> AnswerFinder::answer_by_ends(size_t message, const jinja::Rendered& asked,
                                                 const jinja::Rendered& answered) {
  const std::string &before = asked.text, &with = answered.text;
  size_t begin = before.size(), parted = begin;
  if (!whole_.starts_with(before)) {  // the prompt may be longer than what precedes an answer within the chat
    TRY_ASSIGN(const jinja::Rendered bare, render_(chat_, message, false));
    begin = common_prefix(whole_, before);
    if (begin < bare.text.size() || !whole_.starts_with(bare.text))
      return unclear(message, "the template writes earlier messages differently if more messages follow");
    parted = begin;
    TRY_ASSIGN(begin, begin_between(message, bare.text.size(), parted));
  }
  if (whole_.starts_with(with) && with.size() >= begin) return jinja::Span{begin, with.size()};
  TRY_ASSIGN(const std::string_view end, end_of_all(message));
  const std::string_view lasting = without_end(with, end);
  if (whole_.starts_with(lasting) && lasting.size() >= begin) return jinja::Span{begin, lasting.size()};

  TRY_ASSIGN(const std::string other, with_another_answer(message, with));
  size_t shared = common_prefix(with, before);
  if (begin < parted && with.starts_with(std::string_view(whole_).substr(0, begin))) shared = begin;
  // The closing text that all answers share must be kept. A shorter match is chance: the ">" of "</s>", or an
  // answer that quotes.
  const auto kept_of = [&](std::string_view answer, size_t closing) -> size_t {
    const std::string_view written = answer.substr(std::min(shared, answer.size()));
    const size_t kept =
        longest_suffix_that_begins(written, std::string_view(whole_).substr(begin, written.size()));
    return kept >= closing ? kept : 0;
  };
  size_t kept = kept_of(with, common_suffix(with, other));
  if (const size_t closing = common_suffix(lasting, without_end(other, end));
      kept == 0 && !end.empty() && closing > 0)
    kept = kept_of(lasting, closing);
  if (kept == 0)
    return unclear(message, "the template writes the answer differently if more messages follow");
  return jinja::Span{begin, begin + kept};
}

// Text that the template writes behind the last message, whoever wrote it: eos_token, or nothing.
Result<std::string_view> AnswerFinder::end_of_all(size_t message) {
  if (end_of_text_.empty()) return std::string_view();
  const Result<jinja::Rendered> bare = render_(chat_, message, false);
  if (!bare && out_of_steps()) return bare.error();
  return bare && bare->text.ends_with(end_of_text_) ? end_of_text_ : std::string_view();
}

// RETURNS: the text `with`, but with another answer as last message, whose end differs; empty: impossible.
Result<std::string> AnswerFinder::with_another_answer(size_t message, std::string_view with) {
  constexpr size_t end_bytes = 64;
  const jinja::Value answer = answer_unlike(with.substr(with.size() - std::min(with.size(), end_bytes)));
  if (answer.dict() == nullptr) return std::string();
  ChatRecord other = chat_;
  other.messages[message] = answer;
  Result<jinja::Rendered> rendered = render_(other, message + 1, false);
  if (!rendered && out_of_steps()) return rendered.error();
  return rendered ? std::move(rendered->text) : std::string();
}

}  // namespace tidepool
