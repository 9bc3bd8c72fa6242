// RawDocuments reads text and JSONL files as documents, in order. A line of JSONL is one document. A text
// file is one document, given in parts because it may be larger than memory.
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
  bool first = true, last = true;  // position of a part in its document
};

// RETURNS: true if data.on_bad_record allows skipping a document because of `error`, found while encoding it.
inline bool may_leave_out(OnBadRecord on_bad, const RawDocument& document, const Error& error) {
  return on_bad == OnBadRecord::skip && document.record && error.kind == ErrorKind::bad_input;
}

class RawDocuments {
 public:
  static constexpr size_t part_bytes = 256 * kib;  // of a text that can be cut

  struct File {
    std::string path;
    bool records = false;  // JSONL
  };
  // `named`: shape of the records; none, or one that leaves the form open: detected from the first record, or
  // with OnBadRecord::skip from the first one that has a known shape. `encoder` finds places to cut texts.
  // REQUIRES: `encoder` outlives this.
  RawDocuments(std::vector<File>, std::optional<RecordShape> named, const TextEncoder& encoder,
               OnBadRecord = OnBadRecord::error);

  // RETURNS: none at the end. Skips empty lines.
  // Error: names file and line.
  Result<std::optional<RawDocument>> next();
  // Skips the rest of the text of which next() has returned a part.
  void skip_rest();
  std::optional<RecordShape> shape() const { return shape_; }
  // Records skipped before the first one that next() returned.
  const BadRecords& bad() const { return bad_; }
  u64 bytes_read() const;  // of the files, for progress

 private:
  Result<std::optional<RawDocument>> next_line();
  Result<std::optional<RawDocument>> next_part();
  Result<bool> open_next();
  size_t part_size();
  Result<void> read_more();

  const std::vector<File> files_;
  const std::optional<RecordShape> named_;
  std::optional<RecordShape> shape_;
  const TextEncoder& encoder_;
  const OnBadRecord on_bad_;
  BadRecords bad_;
  size_t next_file_ = 0;
  u64 bytes_before_ = 0;
  std::optional<LineReader> lines_;
  std::unique_ptr<ByteStream> text_;
  std::string buffer_;                   // text that was read; bytes up to at_ were returned
  size_t at_ = 0, window_ = part_bytes;  // window_: bytes of the rest to search for a cut
  bool part_first_ = true, text_ended_ = false;
};

}  // namespace tidepool
