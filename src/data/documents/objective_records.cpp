#include "data/documents/objective_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tidepool {
namespace {

constexpr double margin_most = 1e6;  // of scores that anybody gives

// Length of the prompt that both answers begin with. As in TRL, a space before the answers is theirs.
size_t common_prompt(std::string_view chosen, std::string_view rejected) {
  const auto differ = std::ranges::mismatch(chosen, rejected).in1;
  auto length = static_cast<size_t>(differ - chosen.begin());
  if (length > 0 && chosen[length - 1] == ' ') --length;
  // Never inside a character of several bytes.
  while (length > 0 && length < chosen.size() && (static_cast<u8>(chosen[length]) & 0xc0) == 0x80) --length;
  return length;
}

}  // namespace

Result<LabelledRecord> LabelledText::read() const {
  LabelledRecord out;
  TRY_ASSIGN(out.text, needed("text"));
  const boost::json::value& label = *object_.if_contains("label");
  if (label.is_string())
    out.label = std::string(label.get_string());
  else if (label.is_int64() && label.get_int64() >= 0)
    out.label = static_cast<u64>(label.get_int64());
  else
    return fault(fmt::format("\"label\" must be the number of a label, 0, 1, ..., or its name; it is {}",
                             label.is_number() ? "another number" : json_kind_name(label)));
  return out;
}

Result<double> margin_of(const RecordFields& record) {
  const boost::json::value* margin = record.field("margin");
  if (margin == nullptr) return 0.0;
  if (!margin->is_number() || std::abs(margin->to_number<double>()) > margin_most)
    return record.fault(fmt::format("\"margin\" must be a number up to {:g}, not {}", margin_most,
                                    margin->is_number() ? "a larger one" : json_kind_name(*margin)));
  return margin->to_number<double>();
}

Error same_answers(const RecordFields& record) {
  return record.fault(
      "\"chosen\" and \"rejected\" are the same, or one begins with the other; there is nothing "
      "to prefer: remove the record");
}

Result<PreferenceRecord> PreferenceTexts::read() const {
  PreferenceRecord out;
  TRY_ASSIGN(out.margin, margin_of(*this));
  TRY_ASSIGN(std::string prompt, optional("prompt"));
  TRY_ASSIGN(std::string chosen, needed("chosen"));
  TRY_ASSIGN(std::string rejected, needed("rejected"));
  if (chosen == rejected) return same_answers(*this);
  if (field("prompt") == nullptr) {
    const size_t length = common_prompt(chosen, rejected);
    prompt = chosen.substr(0, length);
    chosen.erase(0, length);
    rejected.erase(0, length);
  }
  if (chosen.empty() || rejected.empty())
    return fault(fmt::format("the {} answer is empty; remove the record, or write an answer",
                             chosen.empty() ? "chosen" : "rejected"));
  out.chosen = CompletionRecord{prompt, std::move(chosen)};
  out.rejected = CompletionRecord{std::move(prompt), std::move(rejected)};
  return out;
}

}  // namespace tidepool
