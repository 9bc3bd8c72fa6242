// DocumentSource provides the documents for `tidepool tokenize`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "huggingface/tokenizer/tokenizer.h"

namespace tidepool {

// A document, or a part of a large document. Parts come in order, cut at places that Tokenizer::cut allows.
struct DocumentPart {
  std::string text;
  bool first = true;
  bool last = true;
  std::string where;  // for errors: "a.txt", "a.txt, line 12"
};

// THREADS: one at a time.
class DocumentSource {
 public:
  virtual ~DocumentSource() = default;
  // RETURNS: false at the end.
  // Error: names the file.
  virtual Result<bool> next(DocumentPart&) = 0;
  virtual u64 bytes() const = 0;       // of all files
  virtual u64 bytes_read() const = 0;  // so far, counted as bytes()
};

enum class TextDocuments : u8 {
  file,  // each file is a document
  line,  // each non-empty line, without its line end
};

// Reads text files. The tokenizer decides where long documents may be cut.
// REQUIRES: the tokenizer outlives the source.
Result<std::unique_ptr<DocumentSource>> text_documents(std::vector<std::string> files, TextDocuments,
                                                       const Tokenizer&);

// A file with a stretch of this size without a place to cut is refused. A few times as much memory is used.
inline constexpr u64 uncut_bytes_max = 256 * mib;
inline constexpr u64 text_block_bytes = 1 * mib;

}  // namespace tidepool
