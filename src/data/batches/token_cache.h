// Documents as tokens, made once and read by every step: a directory of two files of blocks that verify
// themselves (block_file.h), and one that says what they are. Content of
//
// tokens.bin: u32 each, little-endian: the id, and above it (bit 31) whether the token is to be predicted.
//
// documents.bin: two u64 each: where in tokens.bin a document ends, in tokens, and how many tokens up to
// there are predicted (a document's first token never is: nothing stands before it).
//
// about.json: what it was made of, counts, records that were left out, and checksums (XXH3) of the two
// contents, tokens.bin's first, which say what a run's data is; sealed (base/text/seal.h), and written last.
//
// It is written under another name, KEY.unfinished-RANDOM, and renamed, so that it is there whole or not at
// all. Its tokens.bin is locked (flock) as long as somebody writes it: what can be locked is nobody's any
// more.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"
#include "data/documents/bad_records.h"
#include "io/sudden_end.h"

namespace tidepool {

inline constexpr i64 token_cache_version = 2;

struct CacheCounts {
  u64 documents = 0, tokens = 0;
  u64 learned = 0;       // tokens that are predicted
  u64 without_loss = 0;  // documents left out: nothing in them is to be learned
  bool operator==(const CacheCounts&) const = default;
};

class TokenCacheWriter {
 public:
  // `directory` must not be there; ErrorKind::io names what cannot be written.
  static Result<std::unique_ptr<TokenCacheWriter>> create(const std::string& directory,
                                                          const std::string& key);
  ~TokenCacheWriter();  // takes away what was not finished

  // Tokens of the current document, which may be longer than memory; end_document() closes it, and leaves it
  // out if no token but its first is learned.
  Result<void> append(std::span<const u32> tokens);
  Result<void> end_document();
  // Makes it durable and visible. Another process may have been quicker: then its directory stays.
  Result<void> finish();
  const CacheCounts& counts() const { return counts_; }
  void set_bad_records(BadRecords bad) { bad_ = std::move(bad); }
  const BadRecords& bad_records() const { return bad_; }

 private:
  struct Files;
  TokenCacheWriter(std::string directory, std::string key);
  Result<bool> make_unfinished();
  Result<void> flush();
  Result<void> write_blocks(const Fd&, const char* name);
  Result<void> write_about();
  std::string about() const;

  const std::string directory_, key_;
  std::string unfinished_;
  std::unique_ptr<Files> files_;
  // Not written yet; the current document, from document_begin_ on, is held back until something in it is
  // learned.
  std::vector<u32> tokens_;
  size_t document_begin_ = 0;
  u64 document_tokens_ = 0, document_learned_ = 0;
  std::vector<u64> ends_;  // as in documents.bin
  CacheCounts counts_;
  BadRecords bad_;
};

class TokenCache {
 public:
  // ErrorKind::bad_input where the directory is damaged, or made of something else than `key` says; the
  // message names the file and says to remove the directory.
  static Result<std::unique_ptr<TokenCache>> open(const std::string& directory, const std::string& key);
  TokenCache(const TokenCache&) = delete;

  const CacheCounts& counts() const { return counts_; }
  const BadRecords& bad_records() const { return bad_; }
  const std::string& directory() const { return directory_; }
  const std::string& content() const { return content_; }  // checksum: the same tokens, the same text

  struct Document {
    u64 first = 0, tokens = 0;
    u64 learned = 0;  // of them, but for the first
  };
  // THREADS: any, at any time. What is read is verified, block by block: ErrorKind::bad_input names the file
  // that was damaged, io one that cannot be read.
  Result<Document> document(u64 index) const;
  Result<void> read(u64 first_token, std::span<u32> out) const;
  Result<u64> learned_in(u64 first_token, u64 count) const;

 private:
  TokenCache() = default;
  Result<void> read_array(const Fd&, const std::string& path, u64 begin, std::span<std::byte> out) const;

  std::string directory_, content_;
  std::string tokens_path_, documents_path_;  // made once: a step takes no memory
  CacheCounts counts_;
  BadRecords bad_;
  Fd tokens_, documents_;
};

// RETURNS: true if `directory` holds a cache of an older version of this format, which is no longer read.
bool is_old_cache(const std::string& directory);

// Unfinished caches in `directory` that nobody writes any more are removed, whatever their keys.
void remove_unfinished_caches(const std::string& directory);

}  // namespace tidepool
