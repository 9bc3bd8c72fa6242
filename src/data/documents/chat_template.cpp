// ChatTemplate finds answers by the template's marks, or by comparing renderings.
#include "data/documents/chat_template.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <boost/json/value.hpp>

#include "base/check.h"
#include "base/json/text.h"
#include "base/read_file.h"
#include "base/text/cut_text.h"
#include "huggingface/jinja/from_json.h"

namespace tidepool {

namespace {

constexpr std::string_view chatml =
    "{% for message in messages %}"
    "{% if message['tool_calls'] %}"
    "{{ raise_exception('chatml has no form for tool calls; use the template of a model that has them') }}"
    "{% endif %}"
    "<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in "
    "message['content'] %}"
    "{% if part['type'] != 'text' %}{{ raise_exception('chatml has no form for content that is not text') "
    "}}{% endif %}"
    "{{ part['text'] }}"
    "{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// The date that strftime_now gives while data is made. It is always the same: otherwise a run could not be
// resumed on another day.
std::tm fixed_day() {
  std::tm day{};
  day.tm_year = 2025 - 1900;
  day.tm_mday = 1;
  day.tm_wday = 3;
  return day;
}

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

// Removes answers that are not to be learned from the spans that the template has marked.
Result<void> leave_out(const ChatRecord& chat, const std::string& name, std::vector<jinja::Span>& marked) {
  std::vector<jinja::Span> learned;
  size_t answers = 0;
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    if (!is_answer(chat.messages[i])) continue;
    if (answers < marked.size() && !std::ranges::binary_search(chat.not_learned, i))
      learned.push_back(marked[answers]);
    ++answers;
  }
  if (chat.not_learned.empty()) return {};
  if (answers != marked.size())
    return bad_input(
        fmt::format("{}: marks {} answers of {}, so the answers of weight 0 cannot be identified; "
                    "use a template without {{% generation %}}",
                    name, marked.size(), answers));
  marked = std::move(learned);
  return {};
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

Result<TokenizerConfig::Source> named_source(const TokenizerConfig& config,
                                             const ChatTemplateOptions& options) {
  if (!options.file.empty()) return read_chat_template(options.file);
  const auto found = config.templates.find("default");
  if (found != config.templates.end()) return found->second;
  std::string names;
  for (const auto& [name, source] : config.templates) names += fmt::format(" '{}'", name);
  return bad_input(fmt::format(
      "{}: no chat template is named 'default' (there are{}); name a file with data.chat_template",
      config.templates.begin()->second.name, names));
}

Result<void> add_argument(const std::string& argument, jinja::Dict& variables) {
  const size_t equals = argument.find('=');
  if (equals == argument.npos || equals == 0)
    return Error{ErrorKind::usage,
                 fmt::format("data.chat_template_arguments: '{}' is not name=value", argument)};
  const std::string name = argument.substr(0, equals);
  if (name == "messages" || name == "tools" || name == "documents" || name == "add_generation_prompt")
    return Error{
        ErrorKind::usage,
        fmt::format("data.chat_template_arguments: {} is set for each chat and cannot be an argument", name)};
  const std::string value = argument.substr(equals + 1);
  const Result<boost::json::value> parsed = parse_json(value, ErrorKind::usage, "");
  variables.set(name, parsed ? jinja::from_json(*parsed) : jinja::Value(value));
  return {};
}

// Refuses a list as content if the template cannot handle it: it would print the list as Python does, and the
// model would learn brackets and quotes.
Result<void> check_parts_are_taken_apart(const ChatRecord& chat, const std::string& text,
                                         const std::string& name) {
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    const jinja::Value* content = chat.messages[i].dict()->find("content");
    if (content && content->list() && text.find(jinja::to_repr(*content)) != text.npos)
      return bad_input(fmt::format(
          "messages[{}].content: is a list of parts, which {} prints as a list, with brackets; replace it by "
          "one text",
          i, name));
  }
  return {};
}

}  // namespace

Result<TokenizerConfig::Source> read_chat_template(const std::string& file) {
  if (file == builtin_chat_template)
    return TokenizerConfig::Source{"the built-in template chatml", std::string(chatml)};
  TRY_ASSIGN(std::string text, read_small_file(file, template_bytes_max, ErrorKind::bad_input));
  return TokenizerConfig::Source{file, std::move(text)};
}

Result<std::unique_ptr<const ChatTemplate>> ChatTemplate::open(const TokenizerConfig& config,
                                                               const ChatTemplateOptions& options) {
  if (options.file.empty() && config.templates.empty()) return std::unique_ptr<const ChatTemplate>();
  std::unique_ptr<ChatTemplate> out(new ChatTemplate);
  TRY_ASSIGN(const TokenizerConfig::Source source, named_source(config, options));
  TRY_ASSIGN(out->plain_, jinja::Template::parse(source.text, source.name));
  std::string identity = source.text;
  if (const auto found = config.templates.find("tool_use");
      options.file.empty() && found != config.templates.end()) {
    TRY_ASSIGN(out->with_tools_, jinja::Template::parse(found->second.text, found->second.name));
    identity += '\0' + found->second.text;
  }
  for (const auto& [name, token] : config.special_tokens) {
    out->variables_.set(name, jinja::Value(token));
    identity += fmt::format("\n{}={}", name, token);
  }
  for (const std::string& argument : options.arguments) {
    TRY(add_argument(argument, out->variables_));
    identity += '\n' + argument;
  }
  out->fingerprint_ = fmt::format("{:016x}", XXH3_64bits(identity.data(), identity.size()));
  return std::unique_ptr<const ChatTemplate>(std::move(out));
}

const jinja::Template& ChatTemplate::chosen(const ChatRecord& chat) const {
  return with_tools_ && !chat.tools.is_undefined() ? *with_tools_ : *plain_;
}

Result<jinja::Rendered> ChatTemplate::render_first(const ChatRecord& chat, size_t messages,
                                                   bool prompt_for_answer, u64& steps_left) const {
  jinja::Dict variables;
  variables.append("messages", jinja::Value(jinja::List(chat.messages.begin(),
                                                        chat.messages.begin() + static_cast<i64>(messages))));
  variables.append("tools", chat.tools.is_undefined() ? jinja::Value(jinja::None{}) : chat.tools);
  variables.append("documents", jinja::Value(jinja::None{}));
  variables.append("add_generation_prompt", jinja::Value(prompt_for_answer));
  for (const auto& [name, value] : variables_.entries()) variables.set(name, value);
  static const std::tm day = fixed_day();
  return chosen(chat).render(variables, day, &steps_left);
}

Result<std::string> ChatTemplate::prompt(const ChatRecord& chat) const {
  u64 steps_left = record_steps_max;
  TRY_ASSIGN(jinja::Rendered rendered, render_first(chat, chat.messages.size(), true, steps_left));
  return std::move(rendered.text);
}

Result<RenderedChat> ChatTemplate::render(const ChatRecord& chat, LossOn loss) const {
  u64 steps_left = record_steps_max;
  TRY_ASSIGN(jinja::Rendered whole, render_first(chat, chat.messages.size(), false, steps_left));
  TRY(check_parts_are_taken_apart(chat, whole.text, chosen(chat).name()));
  RenderedChat out;
  if (loss == LossOn::everything) {
    out.answers = {{0, whole.text.size()}};
  } else if (chosen(chat).has_generation()) {
    TRY(leave_out(chat, chosen(chat).name(), whole.generations));
    out.answers = std::move(whole.generations);
    std::erase_if(out.answers, [](const jinja::Span& span) { return span.begin == span.end; });
    if (loss == LossOn::last_answer && out.answers.size() > 1) out.answers = {out.answers.back()};
  } else {
    TRY_ASSIGN(out.answers, answers_by_prefixes(chat, loss, whole.text, steps_left));
  }
  out.text = std::move(whole.text);
  return out;
}

Result<std::vector<jinja::Span>> ChatTemplate::answers_by_prefixes(const ChatRecord& chat, LossOn loss,
                                                                   const std::string& whole,
                                                                   u64& steps_left) const {
  std::vector<jinja::Span> out;
  for (size_t i = chat.messages.size(); i-- > 0;) {
    if (!is_answer(chat.messages[i]) || std::ranges::binary_search(chat.not_learned, i)) continue;
    const Result<jinja::Span> found = answer_by_prefixes(chat, i, whole, steps_left);
    if (!found && steps_left == 0)
      return bad_input(
          fmt::format("{}: finding the answers of a chat this long ({} messages) takes too many runs of the "
                      "template; mark answers in the template with {{% generation %}}, cut the chat into "
                      "several, or set data.loss: last_answer or all",
                      chosen(chat).name(), chat.messages.size()));
    TRY_ASSIGN(const jinja::Span span, found);
    if (span.begin < span.end) out.push_back(span);
    if (loss == LossOn::last_answer) break;
  }
  std::ranges::reverse(out);
  for (size_t i = 1; i < out.size(); ++i) {  // two adjacent answers may both claim the text between them
    out[i].begin = std::max(out[i].begin, out[i - 1].end);
    out[i].end = std::max(out[i].end, out[i].begin);
  }
  return out;
}

// Finds the begin of an answer. The prompt for an answer ("<think>") and the answer itself ("<table>") may
// begin alike: then `found`, where the two differ, lies inside the answer. The answer begins between `begin`
// and `found`, where the text changes if another answer takes its place.
Result<size_t> ChatTemplate::answer_begin(const ChatRecord& chat, size_t message, std::string_view whole,
                                          size_t begin, size_t found, u64& steps_left) const {
  const jinja::Value answer = answer_unlike(whole.substr(begin, found - begin));
  if (found == begin || answer.dict() == nullptr) return found;
  ChatRecord other = chat;
  other.messages[message] = answer;
  const Result<jinja::Rendered> rendered = render_first(other, chat.messages.size(), false, steps_left);
  if (!rendered && steps_left == 0) return rendered.error();
  return rendered ? std::clamp(common_prefix(whole, rendered->text), begin, found) : found;
}

Result<jinja::Span> ChatTemplate::answer_by_prefixes(const ChatRecord& chat, size_t message,
                                                     const std::string& whole, u64& steps_left) const {
  const auto unclear = [&](std::string_view why) {
    return bad_input(
        fmt::format("{}: cannot find the answer messages[{}] in the text, because {}; mark "
                    "answers in the template "
                    "with {{% generation %}}, or set data.loss: all",
                    chosen(chat).name(), message, why));
  };
  const Result<jinja::Rendered> asked = render_first(chat, message, true, steps_left);
  if (!asked)
    return unclear(
        fmt::format("the template refuses the messages before the answer alone ({})", asked.error().message));
  const Result<jinja::Rendered> answered = render_first(chat, message + 1, false, steps_left);
  if (!answered)
    return unclear(fmt::format("the template refuses the messages up to the answer alone ({})",
                               answered.error().message));
  const std::string &before = asked->text, &with = answered->text;

  size_t begin = before.size(), parted = begin;
  if (!whole.starts_with(before)) {  // the prompt may be longer than what precedes an answer within the chat
    TRY_ASSIGN(const jinja::Rendered bare, render_first(chat, message, false, steps_left));
    begin = common_prefix(whole, before);
    if (begin < bare.text.size() || !whole.starts_with(bare.text))
      return unclear("the template writes earlier messages differently if more messages follow");
    parted = begin;
    TRY_ASSIGN(begin, answer_begin(chat, message, whole, bare.text.size(), parted, steps_left));
  }
  if (whole.starts_with(with) && with.size() >= begin) return jinja::Span{begin, with.size()};
  TRY_ASSIGN(const std::string_view end, end_of_all(chat, message, steps_left));
  const std::string_view lasting = without_end(with, end);
  if (whole.starts_with(lasting) && lasting.size() >= begin) return jinja::Span{begin, lasting.size()};

  TRY_ASSIGN(const std::string other, with_another_answer(chat, message, with, steps_left));
  size_t shared = common_prefix(with, before);
  if (begin < parted && with.starts_with(std::string_view(whole).substr(0, begin))) shared = begin;
  // The closing text that all answers share must be kept. A shorter match is chance: the ">" of "</s>", or an
  // answer that quotes.
  const auto kept_of = [&](std::string_view answer, size_t closing) -> size_t {
    const std::string_view written = answer.substr(std::min(shared, answer.size()));
    const size_t kept =
        longest_suffix_that_begins(written, std::string_view(whole).substr(begin, written.size()));
    return kept >= closing ? kept : 0;
  };
  size_t kept = kept_of(with, common_suffix(with, other));
  if (const size_t closing = common_suffix(lasting, without_end(other, end));
      kept == 0 && !end.empty() && closing > 0)
    kept = kept_of(lasting, closing);
  if (kept == 0) return unclear("the template writes the answer differently if more messages follow");
  return jinja::Span{begin, begin + kept};
}

// Text that the template writes behind the last message, whoever wrote it: eos_token, or nothing.
Result<std::string_view> ChatTemplate::end_of_all(const ChatRecord& chat, size_t message,
                                                  u64& steps_left) const {
  const jinja::Value* eos = variables_.find("eos_token");
  if (eos == nullptr || eos->text() == nullptr) return std::string_view();
  const Result<jinja::Rendered> bare = render_first(chat, message, false, steps_left);
  if (!bare && steps_left == 0) return bare.error();
  return bare && bare->text.ends_with(*eos->text()) ? std::string_view(*eos->text()) : std::string_view();
}

// RETURNS: the text `with`, but with another answer as last message, whose end differs; empty: impossible.
Result<std::string> ChatTemplate::with_another_answer(const ChatRecord& chat, size_t message,
                                                      std::string_view with, u64& steps_left) const {
  constexpr size_t end_bytes = 64;
  const jinja::Value answer = answer_unlike(with.substr(with.size() - std::min(with.size(), end_bytes)));
  if (answer.dict() == nullptr) return std::string();
  ChatRecord other = chat;
  other.messages[message] = answer;
  Result<jinja::Rendered> rendered = render_first(other, message + 1, false, steps_left);
  if (!rendered && steps_left == 0) return rendered.error();
  return rendered ? std::move(rendered->text) : std::string();
}

}  // namespace tidepool
