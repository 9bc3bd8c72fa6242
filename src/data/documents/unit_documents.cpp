// The part of DocumentEncoder that encodes units: pairs, judged answers and rollouts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/overloaded.h"
#include "base/text/units.h"
#include "data/documents/document_encoder.h"

namespace tidepool {

namespace {

// Advice for sequences that are too long.
std::string_view more_room(const UnitSettings& units) {
  if (units.scoring != TargetOutput::nothing) return "raise train.sequence_length";
  return units.sequences > 1 ? "raise train.sequence_length, half of which is a sequence's, or "
                               "objective.max_length, if that is set"
                             : "raise train.sequence_length, or objective.max_length, if that is set";
}

// RETURNS: the number of tokens with which both sequences begin, as far as neither learns them.
u32 shared_tokens(std::span<const u32> first, std::span<const u32> second) {
  u32 count = 0;
  while (count < std::min(first.size(), second.size()) && first[count] == second[count] &&
         !is_learned(first[count]))
    ++count;
  return count;
}

// Adds a document of one sequence, or of two.
void add_unit(const std::vector<u32>& first, std::vector<u32> second, double value, EncodedDocument& out) {
  out.shared.push_back({.tokens = shared_tokens(first, second)});
  out.tokens.insert(out.tokens.end(), first.begin(), first.end());
  if (!second.empty()) second[0] |= begins_bit;
  out.tokens.insert(out.tokens.end(), second.begin(), second.end());
  out.ends.push_back(out.tokens.size());
  out.values.push_back(value);
}

// Nothing of the sequence is learned but the label behind it.
void add_score(std::vector<u32>& tokens) {
  for (u32& token : tokens) token = id_of_token(token);
  if (!tokens.empty()) tokens.push_back(0 | learned_bit);
}

Result<void> check_rewards(const RolloutsRecord& record) {
  if (!record.rewarded)
    return Error{ErrorKind::bad_input,
                 "there are no \"rewards\": a list with a number for each completion (or \"advantages\")"};
  if (record.completions.size() == 1 && !record.advantages)
    return Error{ErrorKind::bad_input,
                 "a group of one completion has nothing to be compared with; sample several, or write "
                 "\"advantages\""};
  return {};
}

// As GRPOTrainer and RLOOTrainer make them: the deviation is that of a sample, and a little is added to it.
std::vector<double> advantages_of(const RolloutsRecord& record, const AdvantageRule& rule) {
  std::vector<double> out;
  for (const Rollout& rollout : record.completions) out.push_back(rollout.reward);
  if (record.advantages) return out;
  const auto count = static_cast<double>(out.size());
  const double sum = std::accumulate(out.begin(), out.end(), 0.0), mean = sum / count;
  double squares = 0;
  for (const double reward : out) squares += (reward - mean) * (reward - mean);
  const double deviation = std::sqrt(squares / (count - 1));
  for (double& reward : out) {
    if (rule.leave_one_out)
      reward -= (sum - reward) / (count - 1);
    else
      reward = (reward - mean) / (rule.scaled ? deviation + 1e-4 : 1);
  }
  return out;
}

}  // namespace

// RETURNS: the tokens of a prompt with an answer, as an objective of units needs them.
Result<std::vector<u32>> DocumentEncoder::encode_answer(const Answer& answer, std::string_view word) const {
  TRY_ASSIGN(std::vector<u32> out, encode_whole_answer(answer));
  const size_t most = settings_.units.sequence_tokens_max;
  if (settings_.units.scored()) {
    if (out.size() > most)
      return Error{
          ErrorKind::bad_input,
          fmt::format("prompt and {} have {} tokens, and a score is that of the last one, but {} fit; {}",
                      word, out.size(), most, more_room(settings_.units))};
    add_score(out);
    return out;
  }
  const size_t whole = out.size();
  out.resize(std::min(whole, most));
  if (std::ranges::none_of(out, is_learned))
    return Error{ErrorKind::bad_input,
                 fmt::format("no token of the {} is left: prompt and answer have {} tokens, and {} fit; {}",
                             word, whole, most, more_room(settings_.units))};
  return out;
}

Result<std::vector<u32>> DocumentEncoder::encode_whole_answer(const Answer& answer) const {
  std::vector<u32> out;
  TRY(std::visit(
      Overloaded{[&](const CompletionRecord& r) { return encode_completion(r.prompt, r.completion, out); },
                 [&](const ChatRecord& r) { return encode_chat(r, out); }},
      answer));
  if (!out.empty()) out[0] = id_of_token(out[0]);  // nothing comes before it
  return out;
}

Result<void> DocumentEncoder::encode_pair(const PreferenceRecord& record, EncodedDocument& out) const {
  TRY_ASSIGN(const std::vector<u32> chosen, encode_answer(record.chosen, "chosen answer"));
  TRY_ASSIGN(std::vector<u32> rejected, encode_answer(record.rejected, "rejected answer"));
  if (chosen == rejected)
    return Error{ErrorKind::bad_input, fmt::format("chosen and rejected are the same as far as they fit; {}",
                                                   more_room(settings_.units))};
  if (chosen.empty() || rejected.empty())
    return Error{ErrorKind::bad_input, "an answer has no token; remove the record"};
  add_unit(chosen, std::move(rejected), record.margin, out);
  return {};
}

Result<void> DocumentEncoder::encode_judged(const JudgedRecord& record, const RawDocument& raw,
                                            EncodedDocument& out) const {
  TRY_ASSIGN(const std::vector<u32> answer, encode_answer(record.answer, "completion"));
  std::vector<u32> other;
  if (settings_.units.sequences > 1) {
    if (raw.neighbour.empty())
      return Error{
          ErrorKind::bad_input,
          "no other record has another prompt, and the estimate of KTO needs answers to other prompts; "
          "add records, or set objective.loss_type: apo_zero_unpaired, which needs none"};
    TRY_ASSIGN(const Answer mismatched, parse_mismatched(raw.content, raw.neighbour, raw.place));
    Result<std::vector<u32>> encoded = encode_answer(mismatched, "completion");
    other = encoded ? std::move(*encoded) : answer;
  }
  add_unit(answer, std::move(other), record.desirable ? 1 : -1, out);
  return {};
}

Result<void> DocumentEncoder::encode_rollouts(const RolloutsRecord& record, EncodedDocument& out) const {
  const bool trains = settings_.units.scoring == TargetOutput::nothing;
  if (trains) TRY(check_rewards(record));
  const std::vector<double> advantages = trains ? advantages_of(record, settings_.units.advantages)
                                                : std::vector<double>(record.completions.size());
  std::vector<u32> before;
  for (size_t i = 0; i < record.completions.size(); ++i) {
    const Rollout& rollout = record.completions[i];
    TRY_ASSIGN(const std::vector<u32> tokens, encode_rollout(rollout, i));
    if (trains)
      out.numbers.resize(out.tokens.size() + tokens.size(), std::numeric_limits<float>::quiet_NaN());
    const auto of_completion = static_cast<size_t>(std::ranges::count_if(tokens, is_learned));
    if (trains && !rollout.logprobs.empty()) {
      if (rollout.logprobs.size() != of_completion)
        return Error{
            ErrorKind::bad_input,
            fmt::format("logprobs[{}] has {}, but the completion has {} tokens, its end token "
                        "included; write \"prompt_ids\" and \"completion_ids\" to say what was sampled",
                        i, counted_text(rollout.logprobs.size(), "number"), of_completion)};
      size_t next = 0;
      for (size_t t = 0; t < tokens.size(); ++t)
        if (is_learned(tokens[t])) out.numbers[out.tokens.size() + t] = rollout.logprobs[next++];
    }
    add_unit(tokens, {}, advantages[i], out);
    if (i > 0) out.shared.back() = {shared_tokens(before, tokens), true};
    before = tokens;
  }
  return {};
}

Result<std::vector<u32>> DocumentEncoder::encode_rollout(const Rollout& rollout, size_t index) const {
  std::vector<u32> out;
  if (const auto* given = std::get_if<TokensRecord>(&rollout.answer)) {
    for (size_t t = 0; t < given->ids.size(); ++t)
      out.push_back(given->ids[t] | (given->learned[t] ? learned_bit : 0));
  } else {
    TRY_ASSIGN(out, encode_whole_answer(std::get<Answer>(rollout.answer)));
  }
  if (std::ranges::none_of(out, is_learned))
    return Error{ErrorKind::bad_input, fmt::format("completions[{}] has no token; remove it", index)};
  const size_t most = settings_.units.sequence_tokens_max;
  if (out.size() > most)
    return Error{ErrorKind::bad_input,
                 fmt::format("prompt and completions[{}] have {} tokens, and {} fit; rollouts are not cut, "
                             "because their reward is that of the whole: {}",
                             index, out.size(), most, more_room(settings_.units))};
  if (settings_.units.scored()) add_score(out);
  return out;
}

Result<void> DocumentEncoder::prepare_scoring(EncodedDocument& out) const {
  const size_t most = settings_.units.sequence_tokens_max;
  std::vector<u32> tokens;
  size_t begin = 0;
  for (size_t& end : out.ends) {
    std::vector<u32> one(out.tokens.begin() + static_cast<i64>(begin),
                         out.tokens.begin() + static_cast<i64>(end));
    begin = end;
    if (one.size() > most)
      return Error{ErrorKind::bad_input, fmt::format("the document has {} tokens, and {} fit; {}", one.size(),
                                                     most, more_room(settings_.units))};
    if (settings_.units.scored()) add_score(one);
    tokens.insert(tokens.end(), one.begin(), one.end());
    end = tokens.size();
  }
  out.tokens = std::move(tokens);
  return {};
}

}  // namespace tidepool
