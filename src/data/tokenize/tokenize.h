// Documents to a token file, on all cores.
#pragma once

#include <functional>
#include <optional>

#include "data/tokenize/document_source.h"
#include "data/tokenize/token_writer.h"
#include "tidepool/core_pool.h"

namespace tidepool {

struct TokenizeOptions {
  Special special = Special::added;
  std::optional<u32> end;  // stands behind each document
};

struct TokenizeCounts {
  u64 documents = 0;
  u64 tokens = 0;
  u64 text_bytes = 0;
};

struct TokenizeHooks {
  std::function<void(const TokenizeCounts&, double fraction)> progress;  // now and then
  std::function<bool()> stop;                                            // true: ErrorKind::interrupted
};

// Ids stand in the order of the documents, whatever the number of cores. The writer is not finished here.
// Errors name the document.
Result<TokenizeCounts> tokenize(const Tokenizer&, DocumentSource&, TokenWriter&, CorePool&,
                                const TokenizeOptions&, const TokenizeHooks&);

}  // namespace tidepool
