// Files of text and JSONL as documents, in order: one line of JSONL is one, a text file is one (in parts, for
// it may be longer than memory).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/documents/bad_records.h"
#include "data/documents/record.h"
#include "data/documents/text_encoder.h"
#include "data/files/line_reader.h"

namespace tidepool {

struct RawDocument {
  std::string content;             // a line, or a part of a text
  std::string place;               // "FILE:LINE", or "FILE"
  bool record = false;             // a line of JSONL
  bool first = true, last = true;  // part of its document
};

// RETURNS: true if data.on_bad_record lets a document be left out for `error`, met in encoding it.
inline bool may_leave_out(OnBadRecord on_bad, const RawDocument& document, const Error& error) {
  return on_bad == OnBadRecord::skip && document.record && error.kind == ErrorKind::bad_input;
}

class RawDocuments {
 public:
  static constexpr size_t part_bytes = 256 * kib;  // of a text, where it can be cut

  struct File {
    std::string path;
    bool records = false;  // JSONL
  };
  // `shape`: of the records, or none to take that of the first one, or with OnBadRecord::skip of the first
  // one that has any. `encoder` says where texts may be cut; it outlives this.
  RawDocuments(std::vector<File>, std::optional<RecordShape> shape, const TextEncoder& encoder,
               OnBadRecord = OnBadRecord::error);

  // None at the end. Empty lines are passed over. Errors name file and line.
  Result<std::optional<RawDocument>> next();
  // Passes over what is left of the text that next() gave a part of.
  void skip_rest();
  std::optional<RecordShape> shape() const { return shape_; }
  // Records that were left out before the first one that next() gave.
  const BadRecords& bad() const { return bad_; }
  u64 bytes_read() const;  // of the files, for progress

 private:
  Result<std::optional<RawDocument>> next_line();
  Result<std::optional<RawDocument>> next_part();
  Result<bool> open_next();
  size_t part_size();
  Result<void> read_more();

  const std::vector<File> files_;
  std::optional<RecordShape> shape_;
  const TextEncoder& encoder_;
  const OnBadRecord on_bad_;
  BadRecords bad_;
  size_t next_file_ = 0;
  u64 bytes_before_ = 0;
  std::optional<LineReader> lines_;
  std::unique_ptr<ByteStream> text_;
  std::string buffer_;                   // of text that was read; given out up to at_
  size_t at_ = 0, window_ = part_bytes;  // how much of the rest is looked at for a place to cut
  bool part_first_ = true, text_ended_ = false;
};

}  // namespace tidepool
