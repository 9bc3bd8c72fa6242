// Record is one line of a JSONL file. Its keys decide its shape:
//
//   text          {"text": "..."}
//   messages      {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...]}
//   sharegpt      {"conversations": [{"from": "human", "value": "..."}, ...], "system": "..."}
//   alpaca        {"instruction": "...", "input": "...", "output": "..."}
//   completion    {"prompt": "...", "completion": "..."}
//   labelled      {"text": "...", "label": 1}, with objectives that need labels
//   token labels  {"tokens": ["...", ...], "labels": [1, ...]}, or input_ids and labels
//   distributions as tokens, with "teacher_topk_ids" and "teacher_topk_logps"
//   tokens        {"input_ids": [1, 2, ...], "labels": [-100, 2, ...]}
//   completion    {"prompt": [{"role": "user", ...}], "completion": [{"role": "assistant", ...}]}
//   preference    {"prompt": "...", "chosen": "...", "rejected": "..."}, with objectives of pairs. The prompt
//                 may stand in both answers instead; all three may be messages
//   judged        {"prompt": "...", "completion": "...", "label": true}, with objectives of judged answers.
//                 Prompt and completion may be messages
//   rollouts      {"prompt": "...", "completions": ["...", ...], "rewards": [1.5, ...]}, with objectives of
//                 rollouts. The prompt may be messages, and each completion too; all may be ids:
//                 "prompt_ids", "completion_ids". "advantages" may stand in place of rewards, and "logprobs"
//                 beside them: for each completion the log-probabilities of its tokens
//
// `messages` may also be called `conversations`. An answer with a `weight` of 0 is not learned. known_keys.h
// says which other keys are read or refused. All records of a source have one shape: that of the first
// record, or the configured one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "huggingface/jinja/value.h"

namespace tidepool {

// The first six are values of data.records. A completion of messages is configured as `completion` too;
// `labelled` and those behind it follow from the objective.
enum class RecordShape : u8 {
  text,
  messages,
  sharegpt,
  alpaca,
  completion,
  tokens,
  message_completion,
  labelled,
  preference,
  message_preference,
  judged,
  rollouts,
  token_labels,
  distributions
};
// True if the first record alone shows whether it is text or messages.
constexpr bool leaves_form_open(RecordShape shape) {
  return shape == RecordShape::completion || shape == RecordShape::preference;
}
std::string_view name_of(RecordShape);
std::optional<RecordShape> shape_named(std::string_view);  // as data.records names it

using Label = std::variant<u64, std::string>;  // number or name
struct TextRecord {
  std::string text;
};
// Messages in the form that chat templates expect: a list of mappings with "role" and other keys. Keys whose
// value is null are dropped, as in transformers: tables fill columns with nulls, and many templates would
// print "None".
struct ChatRecord {
  jinja::List messages;
  jinja::Value tools;               // undefined: none
  std::vector<size_t> not_learned;  // answers with a weight of 0, ascending
  jinja::Dict variables;            // of the template, for this record alone
  // Index of the message with which a completion begins: it is learned to the end, whoever speaks. None: the
  // answers are learned.
  std::optional<size_t> completion;
};
bool is_answer(const jinja::Value& message);
struct AlpacaRecord {
  std::string instruction, input, output;
  std::string system;                                        // may be empty
  std::vector<std::pair<std::string, std::string>> history;  // earlier instructions and outputs
  jinja::Dict variables;                                     // of the chat template
};
struct CompletionRecord {
  std::string prompt, completion;
};
// Padding is left out. A row may hold several documents.
struct TokensRecord {
  std::vector<u32> ids;
  std::vector<bool> learned;  // by token: true if it is to be predicted
  std::vector<size_t> ends;   // of the documents, ascending; the last one is ids.size()
  // Records with distributions only, [tokens, 2 top_k]: log-probabilities of the tokens that a teacher finds
  // most probable in the place of each, and then these tokens. Zeros: not known.
  u32 top_k = 0;
  std::vector<float> distributions;
  std::optional<double> temperature;  // by which the teacher's logits were divided; none: not told
};
struct TokenLabelsRecord {
  std::variant<std::vector<std::string>, std::vector<u32>> tokens;  // words, or token ids
  std::vector<std::optional<Label>> labels;                         // by word or id; none: no loss
};
struct LabelledRecord {
  std::string text;
  Label label;
};
using Answer = std::variant<CompletionRecord, ChatRecord>;  // with the prompt
struct PreferenceRecord {
  Answer chosen, rejected;
  double margin = 0;
};
struct JudgedRecord {
  Answer answer;
  bool desirable = false;
};
// A completion of a group, which all answer one prompt.
struct Rollout {
  std::variant<Answer, TokensRecord> answer;
  double reward = 0;
  std::vector<float> logprobs;  // of the completion's tokens when it was sampled; empty: not known
};
struct RolloutsRecord {
  std::vector<Rollout> completions;
  bool advantages = false;  // rewards are advantages already
  bool rewarded = true;     // false: rewards are not known
};
using Record =
    std::variant<TextRecord, ChatRecord, AlpacaRecord, CompletionRecord, TokensRecord, LabelledRecord,
                 PreferenceRecord, JudgedRecord, RolloutsRecord, TokenLabelsRecord>;

// `place` is the prefix of error messages: "FILE:LINE".
// Error: bad_input.
// `named`: the configured shape, which may leave open if a completion or preference is text or messages.
Result<RecordShape> recognise_record(std::string_view line, const std::string& place,
                                     std::optional<RecordShape> named = std::nullopt);
Result<Record> parse_record(std::string_view line, RecordShape, const std::string& place);
// RETURNS: the prompt of a judged record with the completion of another record; with its own if the other one
// has none of the same form.
Result<Answer> parse_mismatched(std::string_view line, std::string_view other, const std::string& place);

}  // namespace tidepool
