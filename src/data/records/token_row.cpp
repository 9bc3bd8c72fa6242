#include "data/records/token_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "data/records/known_keys.h"

namespace tidepool {

namespace json = boost::json;

namespace {

constexpr i64 token_max = 0x7fff'fffe;
constexpr i64 no_label = -100;
constexpr std::string_view loss_masks[] = {"assistant_masks", "completion_mask", "loss_mask"};

// RETURNS: none if the value is neither 0 nor 1.
std::optional<bool> bit_of(const json::value& v) {
  if (v.is_bool()) return v.get_bool();
  const double number = v.is_number() ? v.to_number<double>() : -1;
  if (number != 0 && number != 1) return std::nullopt;
  return number == 1;
}

}  // namespace

Result<i64> TokenRow::integer(const json::value& v, const std::string& what, i64 least) const {
  if (!v.is_int64()) return fault(fmt::format("{} must be an integer", what));
  if (v.get_int64() < least || v.get_int64() > token_max)
    return fault(fmt::format("{} is {}, which is not a token id", what, v.get_int64()));
  return v.get_int64();
}

Result<const json::array*> TokenRow::column(std::string_view key) const {
  if (field(key) == nullptr) return nullptr;
  TRY_ASSIGN(const json::array* values, list(key));
  if (values->size() != row_.ids.size())
    return fault(fmt::format("{} {} for {} input_ids; there must be one for each", values->size(), key,
                             row_.ids.size()));
  return values;
}

Result<TokensRecord> TokenRow::read() {
  TRY_ASSIGN(const json::array* ids, list("input_ids"));
  for (size_t i = 0; i < ids->size(); ++i) {
    TRY_ASSIGN(const i64 id, integer((*ids)[i], fmt::format("input_ids[{}]", i), 0));
    row_.ids.push_back(static_cast<u32>(id));
  }
  row_.learned.assign(row_.ids.size(), true);
  padding_.assign(row_.ids.size(), false);
  begins_.assign(row_.ids.size(), false);
  begins_[0] = true;
  for (const auto& [key, value] : object_)
    if (is_unknown_mask(key, value, row_.ids.size()))
      return fault(
          fmt::format("\"{}\" has a number for each token, but its meaning is unknown; write labels "
                      "instead, or remove it",
                      std::string_view(key)));
  TRY(read_labels());
  for (const std::string_view mask : loss_masks) TRY(read_mask(mask));
  TRY(read_attention());
  TRY(read_lengths());
  TRY(read_positions());
  return without_padding();
}

Result<TokensRecord> TokenRow::read_with_distributions() {
  TRY(read());
  TRY(read_distributions());
  return without_padding();
}

Result<void> TokenRow::read_labels() {
  TRY_ASSIGN(const json::array* labels, column("labels"));
  if (labels == nullptr) return {};
  has_labels_ = true;
  for (size_t i = 0; i < labels->size(); ++i) {
    const std::string what = fmt::format("labels[{}]", i);
    TRY_ASSIGN(const i64 label, integer((*labels)[i], what, no_label));
    if (label != no_label && label != static_cast<i64>(row_.ids[i]))
      return fault(fmt::format("{} is {}, but must be input_ids[{}] = {}, or -100 for no loss", what, label,
                               i, row_.ids[i]));
    row_.learned[i] = label != no_label;
  }
  return {};
}

// Several masks: a token is learned if all of them have 1. Labels are those of the masks, or fewer.
Result<void> TokenRow::read_mask(std::string_view key) {
  TRY_ASSIGN(const json::array* mask, column(key));
  for (size_t i = 0; mask && i < mask->size(); ++i) {
    const std::optional<bool> learned = bit_of((*mask)[i]);
    if (!learned) return fault(fmt::format("{}[{}] must be 0 or 1", key, i));
    if (has_labels_ && row_.learned[i] && !*learned)
      return fault(
          fmt::format("labels[{}] is learned, but {}[{}] is 0; remove one of the two keys", i, key, i));
    row_.learned[i] = row_.learned[i] && *learned;
  }
  return {};
}

// Reads attention_mask: 0 is padding. Tools that pack write 1, 2, 3 ... for the documents of a row.
Result<void> TokenRow::read_attention() {
  TRY_ASSIGN(const json::array* mask, column("attention_mask"));
  if (mask == nullptr) return {};
  i64 last = 0, greatest = 0;  // of the tokens so far: the last one, and the greatest
  for (size_t i = 0; i < mask->size(); ++i) {
    const json::value& v = (*mask)[i];
    const i64 part = v.is_int64() ? v.get_int64() : i64{bit_of(v) ? *bit_of(v) : -1};
    if (part < 0)
      return fault(fmt::format("attention_mask[{}] must be 0, 1, or the number of a document", i));
    padding_[i] = part == 0;
    if (part == 0 && has_labels_ && row_.learned[i])
      return fault(fmt::format(
          "labels[{}] is learned, but attention_mask[{}] is 0, which is padding; set the label to -100", i,
          i));
    if (part != 0 && part != last) {
      if (part <= greatest)
        return fault(
            fmt::format("attention_mask[{}] is {} again, behind other values; a document must be in "
                        "one piece, with padding only before or behind it",
                        i, part));
      begins_[i] = true;
      greatest = part;
    }
    last = part;
  }
  if (greatest == 0) return fault("attention_mask has no token but padding");
  return {};
}

// Reads seq_lengths: the lengths of the documents in a row.
Result<void> TokenRow::read_lengths() {
  if (field("seq_lengths") == nullptr) return {};
  TRY_ASSIGN(const json::array* lengths, list("seq_lengths"));
  size_t at = 0;
  for (size_t i = 0; i < lengths->size(); ++i) {
    const json::value& length = (*lengths)[i];
    if (!length.is_int64() || length.get_int64() < 1 || length.get_int64() > token_max)
      return fault(fmt::format("seq_lengths[{}] must be a positive number of tokens", i));
    if (at < begins_.size()) begins_[at] = true;
    at += static_cast<size_t>(length.get_int64());
  }
  if (at != row_.ids.size())
    return fault(
        fmt::format("the sum of seq_lengths is {}, but there are {} input_ids", at, row_.ids.size()));
  return {};
}

// Reads position_ids. A document begins at each 0, and positions count on from there.
Result<void> TokenRow::read_positions() {
  TRY_ASSIGN(const json::array* positions, column("position_ids"));
  i64 expected = 0;
  for (size_t i = 0; positions && i < positions->size(); ++i) {
    if (padding_[i]) continue;
    const json::value& v = (*positions)[i];
    if (!v.is_int64()) return fault(fmt::format("position_ids[{}] must be an integer", i));
    if (v.get_int64() == 0) begins_[i] = true;
    if (begins_[i]) expected = 0;
    if (v.get_int64() != expected)
      return fault(fmt::format(
          "position_ids[{}] is {}, but must be {}: positions count from 0 in each document; remove "
          "position_ids, or divide the row",
          i, v.get_int64(), expected));
    ++expected;
  }
  return {};
}

// Reads the columns of a teacher: lists behind each token. One may be empty where nothing behind it is
// learned.
Result<void> TokenRow::read_distributions() {
  TRY_ASSIGN(const json::array* ids, column("teacher_topk_ids"));
  TRY_ASSIGN(const json::array* logps, column("teacher_topk_logps"));
  if (ids == nullptr || logps == nullptr)
    return fault(fmt::format("there is no \"teacher_topk_{}\"", ids == nullptr ? "ids" : "logps"));
  const auto list_at = [](const json::array& all, size_t i) -> const json::array* {
    static const json::array none;
    return all[i].is_null() ? &none : all[i].if_array();
  };
  for (const json::value& first : *ids)
    if (row_.top_k == 0 && first.is_array()) row_.top_k = static_cast<u32>(first.get_array().size());
  if (row_.top_k == 0) return fault("teacher_topk_ids has nothing but empty lists");
  if (const json::value* temperature = object_.if_contains("teacher_temperature")) {
    if (!temperature->is_number()) return fault("teacher_temperature must be a number");
    row_.temperature = temperature->to_number<double>();
  }
  behind_.resize(row_.ids.size() * 2 * row_.top_k);
  for (size_t i = 0; i < row_.ids.size(); ++i) {
    const json::array *of_ids = list_at(*ids, i), *of_logps = list_at(*logps, i);
    if (of_ids == nullptr || of_logps == nullptr || of_ids->size() != of_logps->size())
      return fault(
          fmt::format("teacher_topk_ids[{}] and teacher_topk_logps[{}] must be lists of one length", i, i));
    TRY(read_distribution(i, *of_ids, *of_logps));
  }
  return {};
}

Result<void> TokenRow::read_distribution(size_t i, const json::array& ids, const json::array& logps) {
  constexpr double logp_most = 1e-3, logp_least = -1e4;  // rounding; any number that is not infinite
  constexpr double sum_error = 0.01;                     // of logarithms in bf16
  const bool needed = i + 1 < row_.ids.size() && row_.learned[i + 1] && !begins_[i + 1];
  if (ids.size() != row_.top_k && (needed || !ids.empty()))
    return fault(
        fmt::format("teacher_topk_ids[{}] has {} tokens, and others have {}", i, ids.size(), row_.top_k));
  std::vector<std::pair<float, float>> tokens;  // log-probability, token
  double sum = 0;
  for (size_t k = 0; k < ids.size(); ++k) {
    TRY_ASSIGN(const i64 id, integer(ids[k], fmt::format("teacher_topk_ids[{}][{}]", i, k), 0));
    const double logp = logps[k].is_number() ? logps[k].to_number<double>() : 1;
    if (!(logp <= logp_most && logp >= logp_least))
      return fault(
          fmt::format("teacher_topk_logps[{}][{}] must be the logarithm of a probability, from {:g} to 0", i,
                      k, logp_least));
    tokens.emplace_back(static_cast<float>(logp), static_cast<float>(id));
    sum += std::exp(logp);
  }
  if (sum > 1 + sum_error)
    return fault(
        fmt::format("teacher_topk_logps[{}] are of probabilities whose sum is {:.4g}, above 1", i, sum));
  // The most probable first, as other tools may not have them.
  std::ranges::stable_sort(tokens, std::greater<>(), &std::pair<float, float>::first);
  float* const out = behind_.data() + i * 2 * row_.top_k;
  std::set<float> seen;
  for (size_t k = 0; k < tokens.size(); ++k) {
    out[k] = tokens[k].first, out[row_.top_k + k] = tokens[k].second;
    if (!seen.insert(tokens[k].second).second)
      return fault(fmt::format("teacher_topk_ids[{}] names a token twice", i));
  }
  return {};
}

Result<TokensRecord> TokenRow::without_padding() const {
  TokensRecord out;
  out.top_k = row_.top_k, out.temperature = row_.temperature;
  const size_t numbers = 2 * row_.top_k;
  for (size_t i = 0; i < row_.ids.size(); ++i) {
    if (padding_[i]) continue;
    if (begins_[i] && !out.ids.empty()) out.ends.push_back(out.ids.size());
    out.ids.push_back(row_.ids[i]);
    out.learned.push_back(row_.learned[i]);
    if (behind_.empty()) continue;
    out.distributions.resize(out.ids.size() * numbers);
    if (!begins_[i])
      std::copy_n(behind_.begin() + static_cast<i64>((i - 1) * numbers), numbers,
                  out.distributions.end() - static_cast<i64>(numbers));
  }
  out.ends.push_back(out.ids.size());
  return out;
}

}  // namespace tidepool
