// DocumentReader reads the documents of files, in order, each file by its format. `tidepool tokenize` and
// training read through it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

enum class DocumentFormat : u8 {
  text,     // the file is a document, given in parts, because it may be larger than memory
  lines,    // each line that is not empty
  records,  // JSONL: each line that is not blank
};

struct DocumentFile {
  std::string path;
  DocumentFormat format = DocumentFormat::text;
};

struct RawDocument {
  std::string content;             // a line, or a part of a text
  std::string place;               // "FILE:LINE", or "FILE"
  bool record = false;             // a line of JSONL
  bool first = true, last = true;  // position of a part in its document
  std::string neighbour;           // another record's line, for records that are compared with one
};

// Places at which texts may be cut into parts.
struct TextCuts {
  // RETURNS: length of the longest beginning that may be a part, whatever follows; shorter than the text. 0:
  // no such place is known.
  std::function<size_t(std::string_view)> cut;
  std::string advice;  // for a text without such a place
};

// The documents of one file. THREADS: one at a time.
class FileDocuments {
 public:
  virtual ~FileDocuments() = default;
  // Overwrites `out`. RETURNS: false at the end.
  // Error: names the file, and the line if it has lines.
  virtual Result<bool> next(RawDocument& out) = 0;
  // Skips the rest of the document of which next() has given a part.
  virtual void skip_rest() {}
  virtual u64 bytes_read() const = 0;  // of the file, for progress
};

// A format is a row: how its files are opened.
struct DocumentFormatRow {
  DocumentFormat format;
  Result<std::unique_ptr<FileDocuments>> (*open)(const std::string& path, const TextCuts&);
};

class DocumentReader {
 public:
  static constexpr size_t part_bytes = 256 * kib;  // of a text that can be cut

  DocumentReader(std::vector<DocumentFile> files, TextCuts cuts)
      : files_(std::move(files)), cuts_(std::move(cuts)) {}
  DocumentReader(const DocumentReader&) = delete;  // the open file refers to the cuts

  Result<bool> next(RawDocument& out);  // as FileDocuments
  void skip_rest();
  u64 bytes_read() const;

 private:
  const std::vector<DocumentFile> files_;
  const TextCuts cuts_;
  size_t next_file_ = 0;
  u64 bytes_before_ = 0;  // of the files before the open one
  std::unique_ptr<FileDocuments> open_;
};

Result<std::unique_ptr<FileDocuments>> open_text(const std::string& path, const TextCuts&);
Result<std::unique_ptr<FileDocuments>> open_lines(const std::string& path, const TextCuts&);
Result<std::unique_ptr<FileDocuments>> open_records(const std::string& path, const TextCuts&);

}  // namespace tidepool
