// Makes the token cache of a source's files, on all cores of a pool, or opens the cache if it exists.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batches/dataset.h"
#include "data/batches/token_cache.h"
#include "data/documents/document_encoder.h"

namespace tidepool {

// To be changed whenever the same files and settings give other tokens; a test compares the tokens.
inline constexpr int encoding_version = 5;

struct CacheRequest {
  std::vector<DocumentFile> files;
  std::optional<RecordShape> shape;
  const TextEncoder& text;
  const ChatTemplate* chat = nullptr;
  EncoderSettings settings;
  OnBadRecord on_bad = OnBadRecord::error;
  std::string identity;  // of tokenizer and settings: everything else that decides the tokens
};

struct MadeCache {
  std::unique_ptr<TokenCache> cache;
  bool made = false;      // true: made now; false: it existed
  bool replaced = false;  // replaced a cache of an older format
};

// Key of a cache: its files (name, size, time and a sample of the content) and the identity of the encoder.
Result<std::string> cache_key(const CacheRequest&);
Result<MadeCache> open_or_make_cache(const CacheRequest&, const DataPlace&);

}  // namespace tidepool
