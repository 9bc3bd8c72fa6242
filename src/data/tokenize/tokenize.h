// Tokenizes documents to a token file, on all cores.
#pragma once

#include <functional>
#include <optional>

#include "data/files/document_reader.h"
#include "data/tokenize/token_writer.h"
#include "huggingface/tokenizer/tokenizer.h"
#include "tidepool/core_pool.h"

namespace tidepool {

struct TokenizeOptions {
  Special special = Special::added;
  std::optional<u32> end;  // added behind each document
};

struct TokenizeCounts {
  u64 documents = 0;
  u64 tokens = 0;
  u64 text_bytes = 0;
};

struct TokenizeHooks {
  std::function<void(const TokenizeCounts&, double fraction)> progress;  // called from time to time
  std::function<bool()> stop;                                            // true: ErrorKind::interrupted
};

// Writes ids in the order of the documents, for any number of cores. Does not finish the writer.
// Error: names the document.
// `bytes`: of all files, for progress.
Result<TokenizeCounts> tokenize(const Tokenizer&, DocumentReader&, u64 bytes, TokenWriter&, CorePool&,
                                const TokenizeOptions&, const TokenizeHooks&);

}  // namespace tidepool
