// The part of DocumentEncoder that encodes texts whose tokens have labels.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "data/documents/document_encoder.h"

namespace tidepool {

Result<u32> label_of(const Label& label, const ScoreHead& score) {
  if (const auto* number = std::get_if<u64>(&label)) {
    if (*number < score.labels) return static_cast<u32>(*number);
    return Error{ErrorKind::bad_input,
                 fmt::format("label {} is not below objective.num_labels, {}; raise it, or correct the label",
                             *number, score.labels)};
  }
  const auto& name = std::get<std::string>(label);
  for (u32 row = 0; row < score.labels; ++row)
    if (score.name(row) == name) return row;
  return Error{
      ErrorKind::bad_input,
      fmt::format("label '{}' is none of objective.labels{}", name,
                  score.names.empty() ? ", which names none: name them all, in the order of their numbers"
                                      : ": " + fmt::format("{}", fmt::join(score.names, ", ")))};
}

// Encodes words with a space between them. `owners` gets for each id the number of the word that begins with
// it, or `none`.
Result<void> DocumentEncoder::encode_words(std::span<const std::string> words, std::vector<u32>& ids,
                                           std::vector<u32>& owners) const {
  const std::string text = fmt::format("{}", fmt::join(words, " "));
  std::vector<TokenBytes> places;
  TRY(text_.encode_with_places(text, Around::special, ids, places));
  owners.assign(ids.size(), none);
  size_t token = 0, begin = 0;
  for (u32 word = 0; word < words.size(); ++word) {
    const size_t end = begin + words[word].size();
    // The space before a word may be a part of its first token.
    while (token < places.size() && places[token].end <= begin) ++token;
    if (token < places.size() && places[token].begin < end && owners[token] == none)
      owners[token] = word;
    else
      return Error{
          ErrorKind::bad_input,
          fmt::format("no token begins with word {}, '{}'; join it with the word before it, or write "
                      "\"input_ids\"",
                      word, words[word])};
    begin = end + 1;
  }
  return {};
}

// A word's first token has its label, and its others have none.
Result<void> DocumentEncoder::encode_token_labels(const TokenLabelsRecord& record,
                                                  EncodedDocument& out) const {
  std::vector<u32> ids, owners;
  if (const auto* given = std::get_if<std::vector<u32>>(&record.tokens)) {
    ids = *given;
    for (u32 i = 0; i < ids.size(); ++i) owners.push_back(i);
  } else {
    TRY(encode_words(std::get<std::vector<std::string>>(record.tokens), ids, owners));
  }
  if (settings_.text_tokens_max != 0) ids.resize(std::min<size_t>(ids.size(), settings_.text_tokens_max));
  ids.push_back(0);
  out.numbers.push_back(0);
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    u32 row = 0;
    if (owners[i] != none && record.labels[owners[i]]) {
      TRY_ASSIGN(row, label_of(*record.labels[owners[i]], *settings_.labelled));
      ids[i + 1] |= learned_bit;
    }
    out.numbers.push_back(static_cast<float>(row));
  }
  out.tokens = std::move(ids);
  return {};
}

}  // namespace tidepool
