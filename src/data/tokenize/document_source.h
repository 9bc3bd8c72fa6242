// Where the documents of `tidepool tokenize` come from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "huggingface/tokenizer/tokenizer.h"

namespace tidepool {

// A document, or a part of one too long to be held: parts come in order, cut where Tokenizer::cut allows it.
struct DocumentPart {
  std::string text;
  bool first = true;
  bool last = true;
  std::string where;  // for errors: "a.txt", "a.txt, line 12"
};

// One thread at a time.
class DocumentSource {
 public:
  virtual ~DocumentSource() = default;
  // False: there are no more. Errors name the file.
  virtual Result<bool> next(DocumentPart&) = 0;
  virtual u64 bytes() const = 0;       // of everything there is
  virtual u64 bytes_read() const = 0;  // so far: of the same kind
};

enum class TextDocuments : u8 {
  file,  // each file is a document
  line,  // each line that is not empty, without its end
};

// Text files. The tokenizer says where long ones may be cut; it must outlive the source.
Result<std::unique_ptr<DocumentSource>> text_documents(std::vector<std::string> files, TextDocuments,
                                                       const Tokenizer&);

// A file of which this much cannot be cut is refused. What is in memory at once is a few times as much.
inline constexpr u64 uncut_bytes_max = 256 * mib;
inline constexpr u64 text_block_bytes = 1 * mib;

}  // namespace tidepool
