// Record is one line of a JSONL file. Its keys decide its shape:
//
//   text          {"text": "..."}
//   messages      {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...]}
//   sharegpt      {"conversations": [{"from": "human", "value": "..."}, ...], "system": "..."}
//   alpaca        {"instruction": "...", "input": "...", "output": "..."}
//   completion    {"prompt": "...", "completion": "..."}
//   labelled      {"text": "...", "label": 1}, with objectives that need labels
//   tokens        {"input_ids": [1, 2, ...], "labels": [-100, 2, ...]}
//   completion    {"prompt": [{"role": "user", ...}], "completion": [{"role": "assistant", ...}]}
//   preference    {"prompt": "...", "chosen": "...", "rejected": "..."}, with objectives of pairs. The prompt
//                 may stand in both answers instead; all three may be messages
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
// `labelled` and the preferences follow from the objective.
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
  message_preference
};
// True if the first record alone shows whether it is text or messages.
constexpr bool leaves_form_open(RecordShape shape) {
  return shape == RecordShape::completion || shape == RecordShape::preference;
}
std::string_view name_of(RecordShape);
std::optional<RecordShape> shape_named(std::string_view);  // as data.records names it

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
};
struct LabelledRecord {
  std::string text;
  std::variant<u64, std::string> label;  // number or name
};
struct PreferenceRecord {
  using Answer = std::variant<CompletionRecord, ChatRecord>;  // with the prompt
  Answer chosen, rejected;
  double margin = 0;
};
using Record = std::variant<TextRecord, ChatRecord, AlpacaRecord, CompletionRecord, TokensRecord,
                            LabelledRecord, PreferenceRecord>;

// `place` is the prefix of error messages: "FILE:LINE".
// Error: bad_input.
// `named`: the configured shape, which may leave open if a completion or preference is text or messages.
Result<RecordShape> recognise_record(std::string_view line, const std::string& place,
                                     std::optional<RecordShape> named = std::nullopt);
Result<Record> parse_record(std::string_view line, RecordShape, const std::string& place);

}  // namespace tidepool
