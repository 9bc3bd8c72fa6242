// LabelledText reads a text with its label.
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

}  // namespace tidepool
