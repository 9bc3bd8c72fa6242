// RawDocuments reads the documents of training files, and finds out which shape their records have.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "data/documents/bad_records.h"
#include "data/documents/text_encoder.h"
#include "data/files/document_reader.h"
#include "data/records/record.h"

namespace tidepool {

// RETURNS: true if data.on_bad_record allows skipping a document because of `error`, found while encoding it.
inline bool may_leave_out(OnBadRecord on_bad, const RawDocument& document, const Error& error) {
  return on_bad == OnBadRecord::skip && document.record && error.kind == ErrorKind::bad_input;
}

class RawDocuments {
 public:
  // `named`: shape of the records; none, or one that leaves the form open: detected from the first record, or
  // with OnBadRecord::skip from the first one that has a known shape. `encoder` finds places to cut texts.
  // REQUIRES: `encoder` outlives this.
  RawDocuments(std::vector<DocumentFile>, std::optional<RecordShape> named, const TextEncoder& encoder,
               OnBadRecord = OnBadRecord::error);

  // RETURNS: none at the end. Skips empty lines. The neighbour of a judged record is the nearest record
  // before it with another prompt; of the first ones, the first behind them. Empty: there is none.
  // Error: names file and line.
  Result<std::optional<RawDocument>> next();
  // Skips the rest of the text of which next() has returned a part.
  void skip_rest() { reader_.skip_rest(); }
  std::optional<RecordShape> shape() const { return shape_; }
  // Records skipped before the first one that next() returned.
  const BadRecords& bad() const { return bad_; }
  u64 bytes_read() const { return reader_.bytes_read(); }  // of the files, for progress

 private:
  Result<std::optional<RawDocument>> read();
  Result<std::optional<RawDocument>> read_beside_neighbour();
  Result<void> read_ahead();

  DocumentReader reader_;
  const std::optional<RecordShape> named_;
  std::optional<RecordShape> shape_;
  const OnBadRecord on_bad_;
  BadRecords bad_;
  // Judged records: those that were read up to the first with another prompt, the last one that was
  // returned, and the last one before that with another prompt.
  struct Prompted {
    std::string line, prompt;
  };
  std::deque<RawDocument> ahead_;
  Prompted last_, other_;
  bool begun_ = false;
};

}  // namespace tidepool
