// Reads the records of objectives: texts with a label, and pairs of answers of which people chose one, as in
// TRL's preference data.
#pragma once

#include "data/documents/record.h"
#include "data/documents/record_fields.h"

namespace tidepool {

class LabelledText : private RecordFields {
 public:
  // REQUIRES: `line` has a "label".
  using RecordFields::RecordFields;
  // Error: bad_input, naming the line.
  Result<LabelledRecord> read() const;
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

}  // namespace tidepool
