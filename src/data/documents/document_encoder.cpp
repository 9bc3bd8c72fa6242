#include "data/documents/document_encoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/overloaded.h"

namespace tidepool {

namespace {

constexpr std::array<jinja::Span, 1> all_of(std::string_view text) { return {{{0, text.size()}}}; }

jinja::Value message(std::string_view role, std::string content) {
  jinja::Dict out;
  out.append("role", jinja::Value(role));
  out.append("content", jinja::Value(std::move(content)));
  return jinja::Value(std::move(out));
}

// Instruction as a chat. With a chat template an instruction is the user's message; without, it is a text
// with headings.
ChatRecord as_chat(const AlpacaRecord& r) {
  ChatRecord out;
  out.variables = r.variables;
  if (!r.system.empty()) out.messages.push_back(message("system", r.system));
  for (const auto& [instruction, output] : r.history) {
    out.messages.push_back(message("user", instruction));
    out.messages.push_back(message("assistant", output));
  }
  out.messages.push_back(message("user", r.input.empty() ? r.instruction : r.instruction + "\n\n" + r.input));
  out.messages.push_back(message("assistant", r.output));
  return out;
}
CompletionRecord as_completion(const AlpacaRecord& r) {
  const std::string input = r.input.empty() ? "" : fmt::format("### Input:\n{}\n\n", r.input);
  return {fmt::format("### Instruction:\n{}\n\n{}### Response:\n", r.instruction, input), r.output};
}

}  // namespace

Result<EncodedDocument> DocumentEncoder::encode(const RawDocument& raw, RecordShape shape) const {
  EncodedDocument out;
  Result<void> done;
  if (raw.record) {
    TRY_ASSIGN(const Record record, parse_record(raw.content, shape, raw.place));
    done = encode_record(record, raw, out);
  } else {
    done = encode_text(raw, out.tokens);
  }
  if (!done) return Error{done.error().kind, fmt::format("{}: {}", raw.place, done.error().message)};
  if (out.ends.empty() && raw.last) out.ends.push_back(out.tokens.size());
  if (settings_.units.scoring != TargetOutput::nothing && out.values.empty()) {
    if (const Result<void> fits = prepare_scoring(out); !fits)
      return Error{fits.error().kind, fmt::format("{}: {}", raw.place, fits.error().message)};
  }
  for (size_t i = 0; i < out.tokens.size(); ++i) {
    if (id_of_token(out.tokens[i]) >= settings_.vocab_size)
      return Error{ErrorKind::bad_input,
                   fmt::format("{}: token {} of the document is {}, but the model's vocabulary has {}; is it "
                               "the model's tokenizer?",
                               raw.place, i, id_of_token(out.tokens[i]), settings_.vocab_size)};
  }
  return out;
}

Result<void> DocumentEncoder::encode_text(const RawDocument& raw, std::vector<u32>& out) const {
  const size_t begin = out.size();
  TRY(text_.encode_part(raw.content, raw.first, raw.last, Around::special, out));
  for (size_t i = begin; i < out.size(); ++i) out[i] |= learned_bit;
  if (raw.last) add_end(out, begin);
  return {};
}

Result<void> DocumentEncoder::encode_record(const Record& record, const RawDocument& raw,
                                            EncodedDocument& document) const {
  std::vector<u32>& out = document.tokens;
  return std::visit(
      Overloaded{[&](const TextRecord& r) -> Result<void> {
                   const size_t begin = out.size();
                   TRY(encode_spans(text_, r.text, all_of(r.text), Around::special, out));
                   add_end(out, begin);
                   return {};
                 },
                 [&](const ChatRecord& r) { return encode_chat(r, out); },
                 [&](const AlpacaRecord& r) -> Result<void> {
                   if (chat_) return encode_chat(as_chat(r), out);
                   if (!r.system.empty() || !r.history.empty() || !r.variables.entries().empty())
                     return Error{ErrorKind::bad_input,
                                  "system, history and chat_template_kwargs need a chat template; name a "
                                  "file with data.chat_template, or write data.chat_template: chatml"};
                   const CompletionRecord plain = as_completion(r);
                   return encode_completion(plain.prompt, plain.completion, out);
                 },
                 [&](const CompletionRecord& r) { return encode_completion(r.prompt, r.completion, out); },
                 [&](const TokensRecord& r) { return encode_tokens(r, document); },
                 [&](const TokenLabelsRecord& r) { return encode_token_labels(r, document); },
                 [&](const LabelledRecord& r) { return encode_labelled(r, out); },
                 [&](const PreferenceRecord& r) { return encode_pair(r, document); },
                 [&](const JudgedRecord& r) { return encode_judged(r, raw, document); },
                 [&](const RolloutsRecord& r) { return encode_rollouts(r, document); }},
      record);
}

Result<void> DocumentEncoder::encode_chat(const ChatRecord& record, std::vector<u32>& out) const {
  if (chat_ == nullptr && settings_.units.on())
    return Error{
        ErrorKind::bad_input,
        "these are messages, and the first record is text, or there is no chat template: all records of a "
        "source must have one form; data.chat_template names a template"};
  if (chat_ == nullptr)
    return Error{ErrorKind::bad_input,
                 "a chat needs a chat template, and the model directory has none; name a file with "
                 "data.chat_template, or write "
                 "data.chat_template: chatml"};
  TRY_ASSIGN(const RenderedChat chat, chat_->render(record, settings_.loss));
  if (chat.prompt) return encode_behind_prompt(*chat.prompt, chat.text, out);
  return encode_spans(text_, chat.text, chat.answers, Around::nothing, out);
}

// Learns the tokens of `whole` behind those with which `prompt` begins too.
Result<void> DocumentEncoder::encode_behind_prompt(const std::string& prompt, const std::string& whole,
                                                   std::vector<u32>& out) const {
  std::vector<u32> before;
  TRY(text_.encode(prompt, Around::nothing, before));
  const auto begin = static_cast<i64>(out.size());
  TRY(text_.encode(whole, Around::nothing, out));
  const auto differ = std::mismatch(out.begin() + begin, out.end(), before.begin(), before.end()).first;
  for (auto token = differ; token != out.end(); ++token) *token |= learned_bit;
  return {};
}

Result<void> DocumentEncoder::encode_completion(const std::string& prompt, const std::string& completion,
                                                std::vector<u32>& out) const {
  const size_t begin = out.size();
  const std::string whole = prompt + completion;
  const std::array<jinja::Span, 1> answer = {
      {{settings_.loss == LossOn::everything ? 0 : prompt.size(), whole.size()}}};
  TRY(encode_spans(text_, whole, answer, Around::special, out));
  add_end(out, begin);
  return {};
}

Result<void> DocumentEncoder::encode_tokens(const TokensRecord& record, EncodedDocument& out) const {
  for (size_t i = 0; i < record.ids.size(); ++i)
    out.tokens.push_back(record.ids[i] | (record.learned[i] ? learned_bit : 0));
  out.ends = record.ends;
  const u32 top_k = settings_.units.numbers / 2;
  if (top_k == 0) return {};
  if (record.top_k < top_k)
    return Error{
        ErrorKind::bad_input,
        fmt::format("teacher_topk_ids has {} tokens behind each token, and objective.top_k is {}; lower it",
                    record.top_k, top_k)};
  if (record.temperature && *record.temperature != settings_.units.temperature)
    return Error{ErrorKind::bad_input,
                 fmt::format("teacher_temperature is {}, and objective.temperature is {}; set the same one",
                             *record.temperature, settings_.units.temperature)};
  for (size_t i = 0; i < record.ids.size(); ++i)
    for (const u32 begin : {0u, record.top_k}) {
      const float* const from = record.distributions.data() + i * 2 * record.top_k + begin;
      out.numbers.insert(out.numbers.end(), from, from + top_k);
    }
  for (const float token : record.distributions)
    if (token >= static_cast<float>(settings_.vocab_size))
      return Error{
          ErrorKind::bad_input,
          fmt::format("teacher_topk_ids names token {}, but the model's vocabulary has {}; is it the "
                      "model's tokenizer?",
                      token, settings_.vocab_size)};
  return {};
}

// As transformers' tokenizers do: special tokens around the text, no end token, the end of a long text cut
// off.
Result<void> DocumentEncoder::encode_labelled(const LabelledRecord& record, std::vector<u32>& out) const {
  const size_t begin = out.size();
  TRY_ASSIGN(const u32 label, label_of(record.label, *settings_.labelled));
  TRY(text_.encode(record.text, Around::special, out));
  if (settings_.text_tokens_max != 0) out.resize(std::min(out.size(), begin + settings_.text_tokens_max));
  out.push_back(label | learned_bit);
  return {};
}

void DocumentEncoder::add_end(std::vector<u32>& out, size_t document_begin) const {
  if (!settings_.end_token) return;
  const bool there = out.size() > document_begin && id_of_token(out.back()) == *settings_.end_token;
  if (!there) out.push_back(*settings_.end_token);
  out.back() |= learned_bit;  // the end is part of the answer, so it is learned
}

}  // namespace tidepool
