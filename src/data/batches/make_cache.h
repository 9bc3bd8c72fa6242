// Files of documents into a token cache, on all cores of a pool; or the cache that was made of them before.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batches/dataset.h"
#include "data/batches/token_cache.h"
#include "data/documents/document_encoder.h"

namespace tidepool {

// Changes with whatever makes other tokens of the same files and settings; a test of what it makes says when.
inline constexpr int encoding_version = 4;

struct CacheRequest {
  std::vector<RawDocuments::File> files;
  std::optional<RecordShape> shape;
  const TextEncoder& text;
  const ChatTemplate* chat = nullptr;
  EncoderSettings settings;
  OnBadRecord on_bad = OnBadRecord::error;
  std::string identity;  // of tokenizer and settings: what else the tokens follow from
};

struct MadeCache {
  std::unique_ptr<TokenCache> cache;
  bool made = false;      // now; else it was there
  bool replaced = false;  // in the place of one of an older format
};

// The key says which files (name, size, time and a sample of the content), and what they were encoded with.
Result<std::string> cache_key(const CacheRequest&);
Result<MadeCache> open_or_make_cache(const CacheRequest&, const DataPlace&);

}  // namespace tidepool
