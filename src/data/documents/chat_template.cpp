// ChatTemplate finds answers by the template's marks; AnswerFinder finds them without.
#include "data/documents/chat_template.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <boost/json/value.hpp>

#include "base/check.h"
#include "base/json/text.h"
#include "base/read_file.h"
#include "base/text/cut_text.h"
#include "data/documents/content_parts.h"
#include "data/documents/find_answers.h"
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
  for (const auto& [name, value] : chat.variables.entries()) variables.set(name, value);
  static const std::tm day = fixed_day();
  return chosen(chat).render(variables, day, &steps_left);
}

Result<std::string> ChatTemplate::prompt(const ChatRecord& chat) const {
  u64 steps_left = record_steps_max;
  TRY_ASSIGN(jinja::Rendered rendered, render_first(chat, chat.messages.size(), true, steps_left));
  return std::move(rendered.text);
}

Result<RenderedChat> ChatTemplate::render(const ChatRecord& given, LossOn loss) const {
  const std::optional<ChatRecord> joined =
      has_parts(given) && !takes_lists(given) ? std::optional(with_joined_parts(given)) : std::nullopt;
  const ChatRecord& chat = joined ? *joined : given;
  u64 steps_left = record_steps_max;
  TRY_ASSIGN(jinja::Rendered whole, render_first(chat, chat.messages.size(), false, steps_left));
  RenderedChat out;
  if (loss == LossOn::everything) {
    out.answers = {{0, whole.text.size()}};
  } else if (chat.completion && loss == LossOn::answers) {
    TRY_ASSIGN(out.prompt, prompt_of_completion(chat, whole.text, steps_left));
  } else if (chosen(chat).has_generation()) {
    TRY(leave_out(chat, chosen(chat).name(), whole.generations));
    out.answers = std::move(whole.generations);
    std::erase_if(out.answers, [](const jinja::Span& span) { return span.begin == span.end; });
    if (loss == LossOn::last_answer && out.answers.size() > 1) out.answers = {out.answers.back()};
  } else {
    TRY_ASSIGN(out.answers, found_answers(chat, loss, whole, steps_left));
  }
  out.text = std::move(whole.text);
  return out;
}

bool ChatTemplate::takes_lists(const ChatRecord& chat) const {
  u64 steps_left = record_steps_max;
  return takes_parts(chat, [&](const ChatRecord& tried) -> Result<std::string> {
    TRY_ASSIGN(jinja::Rendered rendered, render_first(tried, tried.messages.size(), false, steps_left));
    return std::move(rendered.text);
  });
}

// The prompt for an answer may be longer than what the template writes before an answer: then the completion
// begins where the two differ, as in TRL.
Result<std::string> ChatTemplate::prompt_of_completion(const ChatRecord& chat, const std::string& whole,
                                                       u64& steps_left) const {
  const auto unclear = [&](std::string_view why) {
    return bad_input(
        fmt::format("{}: cannot find the completion in the text, because {}; write the record as "
                    "messages, or set data.loss: all",
                    chosen(chat).name(), why));
  };
  Result<jinja::Rendered> asked = render_first(chat, *chat.completion, true, steps_left);
  if (!asked)
    return unclear(fmt::format("the template refuses the prompt alone ({})", asked.error().message));
  if (whole.starts_with(asked->text)) return std::move(asked->text);
  TRY_ASSIGN(const jinja::Rendered bare, render_first(chat, *chat.completion, false, steps_left));
  const jinja::Value* eos = variables_.find("eos_token");
  const std::string_view lasting =
      without_end(bare.text, eos && eos->text() ? std::string_view(*eos->text()) : std::string_view());
  if (!whole.starts_with(lasting) || !asked->text.starts_with(lasting))
    return unclear("the template writes the prompt differently if a completion follows");
  return std::move(asked->text);
}

Result<std::vector<jinja::Span>> ChatTemplate::found_answers(const ChatRecord& chat, LossOn loss,
                                                             const jinja::Rendered& whole,
                                                             u64& steps_left) const {
  const jinja::Value* eos = variables_.find("eos_token");
  const auto render = [&](const ChatRecord& of, size_t messages, bool prompt) {
    return render_first(of, messages, prompt, steps_left);
  };
  AnswerFinder finder(chat, whole, render, chosen(chat).name(),
                      eos && eos->text() ? std::string_view(*eos->text()) : std::string_view(), steps_left);
  return finder.find(loss == LossOn::last_answer);
}

}  // namespace tidepool
