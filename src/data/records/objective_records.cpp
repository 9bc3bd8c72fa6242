#include "data/records/objective_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/units.h"

namespace tidepool {

namespace json = boost::json;

namespace {

constexpr double least_logprob = -200;
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

Result<TokenLabelsRecord> LabelledTokens::read() const {
  TokenLabelsRecord out;
  TRY(only_one({"input_ids", "tokens", "words"}));
  TRY(only_one({"labels", "ner_tags", "tags"}));
  if (const json::value* mask = field("attention_mask"); mask != nullptr && mask->is_array())
    for (const json::value& one : mask->get_array())
      if (!(one == 1))
        return fault("attention_mask has other numbers than 1; write a text alone, without padding");
  size_t tokens = 0;
  if (field("input_ids") != nullptr) {
    TRY_ASSIGN(std::vector<u32> all, ids());
    tokens = all.size();
    out.tokens = std::move(all);
  } else {
    const std::string_view key = field("words") != nullptr ? "words" : "tokens";
    if (field(key) == nullptr)
      return fault("there are no \"tokens\": a list of a text's words (or \"input_ids\"), each with a label");
    TRY_ASSIGN(std::vector<std::string> all, words(key));
    tokens = all.size();
    out.tokens = std::move(all);
  }
  std::string_view key = "labels";
  for (const std::string_view other : {"ner_tags", "tags"})
    if (field(key) == nullptr && field(other) != nullptr) key = other;
  if (field(key) == nullptr) return fault("there are no \"labels\" (or \"ner_tags\", \"tags\")");
  TRY_ASSIGN(const json::array* labels, list(key));
  if (labels->size() != tokens)
    return fault(fmt::format("there are {} for {}; give each one, and -100 to those without",
                             counted_text(labels->size(), "label"), counted_text(tokens, "token")));
  for (size_t i = 0; i < tokens; ++i) {
    TRY_ASSIGN(std::optional<Label> one, label((*labels)[i], fmt::format("{}[{}]", key, i)));
    out.labels.push_back(std::move(one));
  }
  return out;
}

Result<void> LabelledTokens::only_one(std::initializer_list<std::string_view> keys) const {
  std::string_view found;
  for (const std::string_view key : keys) {
    if (field(key) == nullptr) continue;
    if (!found.empty())
      return fault(fmt::format("\"{}\" and \"{}\" say the same; keep one of them", found, key));
    found = key;
  }
  return {};
}

Result<std::vector<std::string>> LabelledTokens::words(std::string_view key) const {
  std::vector<std::string> out;
  TRY_ASSIGN(const json::array* all, list(key));
  for (size_t i = 0; i < all->size(); ++i) {
    const json::string* word = (*all)[i].if_string();
    if (word == nullptr || word->find_first_not_of(" \t\r\n") == json::string::npos)
      return fault(fmt::format("{}[{}] must be a word", key, i));
    out.emplace_back(std::string_view(*word));
  }
  return out;
}

Result<std::vector<u32>> LabelledTokens::ids() const {
  std::vector<u32> out;
  TRY_ASSIGN(const json::array* all, list("input_ids"));
  for (const json::value& id : *all) {
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() >= i64{1} << 30)
      return fault("input_ids must hold token ids: whole numbers from 0 on");
    out.push_back(static_cast<u32>(id.get_int64()));
  }
  return out;
}

Result<std::optional<Label>> LabelledTokens::label(const json::value& v, std::string_view what) const {
  constexpr i64 no_label = -100;
  if (v.is_string()) return std::optional<Label>(std::string(v.get_string()));
  if (v.is_int64() && v.get_int64() >= 0) return std::optional<Label>(static_cast<u64>(v.get_int64()));
  if (v.is_int64() && v.get_int64() == no_label) return std::optional<Label>();
  return fault(
      fmt::format("{} must be the number of a label, 0, 1, ..., its name, or -100 for none; it is {}", what,
                  v.is_number() ? "another number" : json_kind_name(v)));
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

Result<bool> desirable_of(const RecordFields& record) {
  const json::value* label = record.field("label");
  if (label != nullptr && label->is_bool()) return label->get_bool();
  if (label != nullptr && label->is_int64() && (label->get_int64() == 0 || label->get_int64() == 1))
    return label->get_int64() == 1;
  return record.fault(
      fmt::format("\"label\" must be true, a desirable answer, or false, an undesirable one; it is {}",
                  label == nullptr     ? "null"
                  : label->is_number() ? "another number"
                                       : json_kind_name(*label)));
}

Result<const json::array*> GroupOfRollouts::completions() const {
  if (!has_ids()) {
    if (field("completions") == nullptr)
      return fault("there are no \"completions\": a list of answers to the prompt (or \"completion_ids\")");
    return list("completions");
  }
  if (field("completions") != nullptr)
    return fault("\"completions\" and \"completion_ids\" both say what was sampled; keep the ids");
  return list("completion_ids");
}

Result<double> GroupOfRollouts::number_in(const json::array& numbers, size_t i, std::string_view what,
                                          double most) const {
  const json::value& v = numbers[i];
  if (!v.is_number() || !(std::abs(v.to_number<double>()) <= most))
    return fault(fmt::format("{}[{}] must be a number up to {:g}, not {}", what, i, most,
                             v.is_number() ? "a larger one" : json_kind_name(v)));
  return v.to_number<double>();
}

Result<RolloutsRecord> GroupOfRollouts::read_numbers() const {
  RolloutsRecord out;
  TRY_ASSIGN(const json::array* all, completions());
  out.advantages = field("advantages") != nullptr;
  const std::string_view key = out.advantages ? "advantages" : "rewards";
  if (out.advantages && field("rewards") != nullptr)
    return fault("\"rewards\" and \"advantages\" both say what a completion is worth; keep one of them");
  out.completions.resize(all->size());
  out.rewarded = field(key) != nullptr;
  for (size_t i = 0; i < all->size(); ++i) {
    TRY_ASSIGN(out.completions[i].logprobs, logprobs(i));
  }
  if (!out.rewarded) return out;
  TRY_ASSIGN(const json::array* rewards, list(key));
  if (rewards->size() != all->size())
    return fault(fmt::format("there are {} for {}; give each completion one",
                             counted_text(rewards->size(), key.substr(0, key.size() - 1)),
                             counted_text(all->size(), "completion")));
  for (size_t i = 0; i < all->size(); ++i) {
    TRY_ASSIGN(out.completions[i].reward, number_in(*rewards, i, key, margin_most));
  }
  return out;
}

Result<std::vector<float>> GroupOfRollouts::logprobs(size_t i) const {
  std::vector<float> out;
  if (field("logprobs") == nullptr) return out;
  TRY_ASSIGN(const json::array* all, list("logprobs"));
  TRY_ASSIGN(const json::array* of, completions());
  if (all->size() != of->size())
    return fault(fmt::format("there are {} of logprobs for {}", counted_text(all->size(), "list"),
                             counted_text(of->size(), "completion")));
  const json::array* numbers = (*all)[i].if_array();
  if (numbers == nullptr || numbers->empty())
    return fault(
        fmt::format("logprobs[{}] must be a list with a number for each token of the completion", i));
  for (size_t t = 0; t < numbers->size(); ++t) {
    TRY_ASSIGN(const double logp, number_in(*numbers, t, fmt::format("logprobs[{}]", i), margin_most));
    if (logp < least_logprob)
      return fault(fmt::format("logprobs[{}][{}] is {:g}, and no sampler takes a token that is so improbable",
                               i, t, logp));
    // Samplers round: the most probable tokens may come out a little above 0.
    if (logp > 1e-3)
      return fault(fmt::format("logprobs[{}][{}] is {:g}, and a logarithm of a probability is not above 0", i,
                               t, logp));
    out.push_back(static_cast<float>(logp));
  }
  return out;
}

Result<void> GroupOfRollouts::add_ids(const json::value& ids, std::string_view what, bool learned,
                                      TokensRecord& out) const {
  if (!ids.is_array()) return fault(fmt::format("{} must be a list of token ids", what));
  for (const json::value& id : ids.get_array()) {
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() >= i64{1} << 30)
      return fault(fmt::format("{} must hold token ids: whole numbers from 0 on", what));
    out.ids.push_back(static_cast<u32>(id.get_int64()));
    out.learned.push_back(learned);
  }
  return {};
}

Result<TokensRecord> GroupOfRollouts::read_ids(size_t i) const {
  TokensRecord out;
  const json::value* prompt = field("prompt_ids");
  if (prompt == nullptr) return fault("there are \"completion_ids\" but no \"prompt_ids\"");
  TRY(add_ids(*prompt, "prompt_ids", false, out));
  if (out.ids.empty())
    return fault("\"prompt_ids\" is empty; the first token of a completion needs one before it");
  TRY_ASSIGN(const json::array* all, completions());
  TRY(add_ids((*all)[i], fmt::format("completion_ids[{}]", i), true, out));
  out.ends.push_back(out.ids.size());
  return out;
}

Result<ExactJson> GroupOfRollouts::record_of(size_t i) const {
  const json::value* prompt = field("prompt");
  if (prompt == nullptr) return fault("there is no \"prompt\"");
  TRY_ASSIGN(const json::array* all, completions());
  json::value completion = (*all)[i];
  if (prompt->is_array() && completion.is_string())
    completion = json::array{json::object{{"role", "assistant"}, {"content", completion}}};
  json::object one = {{"prompt", *prompt}, {"completion", std::move(completion)}};
  for (const std::string_view key : {"tools", "chat_template_kwargs"})
    if (const json::value* v = field(key)) one[key] = *v;
  return ExactJson{.value = std::move(one), .large = large_};
}

}  // namespace tidepool
