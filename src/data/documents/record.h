// Record is one line of a JSONL file. Its keys decide its shape:
//
//   text          {"text": "..."}
//   messages      {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...]}
//   sharegpt      {"conversations": [{"from": "human", "value": "..."}, ...], "system": "..."}
//   alpaca        {"instruction": "...", "input": "...", "output": "..."}
//   completion    {"prompt": "...", "completion": "..."}
//   tokens        {"input_ids": [1, 2, ...], "labels": [-100, 2, ...]}
//
// `messages` may also be called `conversations`. An answer with a `weight` of 0 is not learned. Other keys
// are ignored. All records of a source have one shape: that of the first record, or the configured one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "huggingface/jinja/value.h"

namespace tidepool {

enum class RecordShape : u8 { text, messages, sharegpt, alpaca, completion, tokens };
std::string_view name_of(RecordShape);

struct TextRecord {
  std::string text;
};
// Messages in the form that chat templates expect: a list of mappings with "role" and other keys. Null values
// are dropped, because tables fill columns with them; only a null content is kept, because templates test for
// it.
struct ChatRecord {
  jinja::List messages;
  jinja::Value tools;               // undefined: none
  std::vector<size_t> not_learned;  // answers with a weight of 0, ascending
};
bool is_answer(const jinja::Value& message);
struct AlpacaRecord {
  std::string instruction, input, output;
};
struct CompletionRecord {
  std::string prompt, completion;
};
struct TokensRecord {
  std::vector<u32> ids;
  std::vector<bool> learned;  // by token: true if it is to be predicted
};
using Record = std::variant<TextRecord, ChatRecord, AlpacaRecord, CompletionRecord, TokensRecord>;

// `place` is the prefix of error messages: "FILE:LINE".
// Error: bad_input.
Result<RecordShape> recognise_record(std::string_view line, const std::string& place);
Result<Record> parse_record(std::string_view line, RecordShape, const std::string& place);

}  // namespace tidepool
