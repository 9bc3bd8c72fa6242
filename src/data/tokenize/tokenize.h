// Tokenizes documents to a token file, on all cores.
#pragma once

#include <functional>
#include <optional>

#include "data/tokenize/document_source.h"
#include "data/tokenize/token_writer.h"
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
Result<TokenizeCounts> tokenize(const Tokenizer&, DocumentSource&, TokenWriter&, CorePool&,
                                const TokenizeOptions&, const TokenizeHooks&);

}  // namespace tidepool
