// One line of a JSONL file. Its shape is told by its keys:
//
//   text          {"text": "..."}
//   messages      {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...]}
//   sharegpt      {"conversations": [{"from": "human", "value": "..."}, ...], "system": "..."}
//   alpaca        {"instruction": "...", "input": "...", "output": "..."}
//   completion    {"prompt": "...", "completion": "..."}
//   tokens        {"input_ids": [1, 2, ...], "labels": [-100, 2, ...]}
//
// Messages may be called conversations too; an answer that has a `weight` of 0 is not learned. Further keys
// are passed over. All records of a source have one shape: the first one's, or the one that is named.
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
// Messages as chat templates want them: a list of mappings with "role" and what else there is. Values that
// are null are left out, as tables fill columns with them, but a content: templates ask whether it is none.
struct ChatRecord {
  jinja::List messages;
  jinja::Value tools;               // undefined: none
  std::vector<size_t> not_learned;  // answers whose weight is 0, ascending
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
  std::vector<bool> learned;  // by token: whether it is to be predicted
};
using Record = std::variant<TextRecord, ChatRecord, AlpacaRecord, CompletionRecord, TokensRecord>;

// `place` stands in front of errors: "FILE:LINE". ErrorKind::bad_input.
Result<RecordShape> recognise_record(std::string_view line, const std::string& place);
Result<Record> parse_record(std::string_view line, RecordShape, const std::string& place);

}  // namespace tidepool
