// Reads the records of objectives: texts with a label, pairs of answers of which people chose one, as in
// TRL's preference data, judged answers, and rollouts.
#pragma once

#include "data/records/record.h"
#include "data/records/record_fields.h"

namespace tidepool {

class LabelledText : private RecordFields {
 public:
  // REQUIRES: `line` has a "label".
  using RecordFields::RecordFields;
  // Error: bad_input, naming the line.
  Result<LabelledRecord> read() const;
};

class LabelledTokens : private RecordFields {
 public:
  using RecordFields::RecordFields;
  // Error: bad_input, naming the line.
  Result<TokenLabelsRecord> read() const;

 private:
  Result<void> only_one(std::initializer_list<std::string_view> keys) const;
  Result<std::vector<std::string>> words(std::string_view key) const;
  Result<std::vector<u32>> ids() const;
  Result<std::optional<Label>> label(const boost::json::value&, std::string_view what) const;
};

class PreferenceTexts : private RecordFields {
 public:
  // REQUIRES: `line` has a "rejected".
  using RecordFields::RecordFields;
  // A prompt that is not given is what both answers begin with.
  // Error: bad_input, naming the line.
  Result<PreferenceRecord> read() const;
};

// RETURNS: by how much the chosen answer is better, from "margin"; 0: not said.
// Error: bad_input, naming the line.
Result<double> margin_of(const RecordFields&);
Error same_answers(const RecordFields&);

// RETURNS: "label" of a judged answer.
// Error: bad_input, naming the line.
Result<bool> desirable_of(const RecordFields&);

// A prompt with completions that a model has sampled.
class GroupOfRollouts : private RecordFields {
 public:
  using RecordFields::RecordFields;
  // RETURNS: the completions with their numbers, but without their text.
  // Error: bad_input, naming the line.
  Result<RolloutsRecord> read_numbers() const;
  bool has_ids() const { return field("completion_ids") != nullptr; }
  // REQUIRES of the following: `i` is below the number of completions.
  Result<TokensRecord> read_ids(size_t i) const;
  // RETURNS: a record of the prompt and one completion; text behind messages is an assistant's.
  Result<ExactJson> record_of(size_t i) const;

 private:
  Result<const boost::json::array*> completions() const;
  Result<double> number_in(const boost::json::array&, size_t i, std::string_view what, double most) const;
  Result<std::vector<float>> logprobs(size_t i) const;
  Result<void> add_ids(const boost::json::value& ids, std::string_view what, bool learned,
                       TokensRecord& out) const;
};

}  // namespace tidepool
