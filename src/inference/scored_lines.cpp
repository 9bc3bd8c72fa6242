#include "inference/scored_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <cmath>
#include <numeric>
#include <span>

#include "base/json/text.h"
#include "data/documents/answer_tokens.h"

namespace tidepool {

namespace json = boost::json;

namespace {

constexpr u64 all_records = ~u64{0};
// Members that describe a row of ids as it was, with padding.
constexpr std::array<std::string_view, 6> of_rows = {"attention_mask",  "position_ids",    "seq_lengths",
                                                     "assistant_masks", "completion_mask", "loss_mask"};

// RETURNS: the text of an object in JSON without its member `key`.
std::string without_member(const std::string& line, std::string_view key) {
  const std::string quoted_key = fmt::format("\"{}\"", key);
  size_t begin = 0;  // of the member, behind '{' or ','
  u32 depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      i += c == '\\' ? 1 : 0;
      quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    if ((c == '{' || c == '[') && ++depth == 1) begin = i + 1;
    const bool ends = depth == 1 && (c == ',' || c == '}');
    if (c == '}' || c == ']') --depth;
    if (!ends) continue;
    const size_t name = line.find_first_not_of(" \t", begin);
    if (line.compare(name, quoted_key.size(), quoted_key) != 0) {
      begin = i + 1;
      continue;
    }
    // With the comma behind it; the last one with the comma before it.
    const size_t from = c == ',' || line[begin - 1] == '{' ? begin : begin - 1;
    return line.substr(0, from) + line.substr(c == ',' ? i + 1 : i);
  }
  return line;
}

template <class Numbers>
std::string list_of(const Numbers& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

}  // namespace

Result<void> ScoredLines::add(u64 record, ScoredDocument document) {
  TRY(finish_up_to(record));
  documents_.push_back(std::move(document));
  return {};
}

Result<void> ScoredLines::finish() { return finish_up_to(all_records); }

Result<void> ScoredLines::finish_up_to(u64 record) {
  for (; next_ < record; ++next_) {
    TRY_ASSIGN(const std::optional<RawDocument> line, records_.next());
    if (!line && record == all_records) return {};
    if (!line)
      return Error{ErrorKind::bad_input,
                   fmt::format("{}: has changed while it was read; start again", file_)};
    // A line without documents was left out, or has nothing to learn.
    if (!documents_.empty()) TRY(write(*line));
    documents_.clear();
  }
  return {};
}

Result<void> ScoredLines::write(const RawDocument& line) {
  TRY_ASSIGN(const json::value parsed, parse_json(line.content, ErrorKind::bad_input, line.place));
  const Fields fields = this->fields();
  std::string text = line.content;
  const auto leave_out = [&](std::string_view key) {
    if (parsed.get_object().contains(key)) text = without_member(text, key);
  };
  for (const auto& [key, value] : fields) leave_out(key);
  if (output_ == TargetOutput::distributions) std::ranges::for_each(of_rows, leave_out);
  text.erase(text.find_last_of('}'));
  for (const auto& [key, value] : fields) {
    const bool alone = text.find_last_not_of(" \t") == text.find('{');
    text += fmt::format("{}\"{}\": {}", alone ? "" : ", ", key, value);
  }
  ++written_;
  return request_.take(text + "}");
}

ScoredLines::Fields ScoredLines::fields() const {
  if (output_ == TargetOutput::distributions) return distributions();
  if (output_ == TargetOutput::scores) {
    std::vector<float> scores;
    for (const ScoredDocument& document : documents_) scores.push_back(document.outputs[0]);
    if (rollouts_ || scores.size() > 1) return {{"rewards", list_of(scores)}};
    return {{"reward", fmt::format("{}", scores[0])}};
  }
  if (rollouts_) {
    std::vector<std::string> lists;
    for (const ScoredDocument& document : documents_) lists.push_back(list_of(document.outputs));
    return {{"logprobs", list_of(lists)}};
  }
  std::vector<float> all;
  for (const ScoredDocument& document : documents_)
    all.insert(all.end(), document.outputs.begin(), document.outputs.end());
  const double sum = std::accumulate(all.begin(), all.end(), 0.0);
  Fields out = {{"logprob", json_number(sum)},
                {"tokens", fmt::format("{}", all.size())},
                {"perplexity", json_number(std::exp(-sum / static_cast<double>(all.size())))}};
  if (request_.by_token) out.emplace_back("token_logprobs", list_of(all));
  return out;
}

// The tokens of a row, and behind each the distribution of the next one if that is learned.
ScoredLines::Fields ScoredLines::distributions() const {
  std::vector<i64> ids, labels;
  std::vector<std::string> top_ids, top_logps;
  std::vector<size_t> lengths;
  const size_t k = request_.top_k;
  for (const auto& [tokens, outputs] : documents_) {
    lengths.push_back(tokens.size());
    size_t target = 0;
    for (size_t t = 0; t < tokens.size(); ++t) {
      const bool learned = t > 0 && is_learned(tokens[t]);
      ids.push_back(id_of_token(tokens[t]));
      labels.push_back(learned ? ids.back() : -100);
      const bool followed = t + 1 < tokens.size() && is_learned(tokens[t + 1]);
      const std::span<const float> numbers =
          followed ? std::span(outputs).subspan(2 * k * target++, 2 * k) : std::span<const float>();
      top_logps.push_back(list_of(numbers.first(numbers.size() / 2)));
      top_ids.push_back(list_of(numbers.subspan(numbers.size() / 2)));
    }
  }
  Fields out = {{"input_ids", list_of(ids)},
                {"labels", list_of(labels)},
                {"teacher_topk_ids", list_of(top_ids)},
                {"teacher_topk_logps", list_of(top_logps)},
                {"teacher_temperature", json_number(request_.temperature)}};
  if (lengths.size() > 1) out.emplace_back("seq_lengths", list_of(lengths));
  return out;
}

}  // namespace tidepool
