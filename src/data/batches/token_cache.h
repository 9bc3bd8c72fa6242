// TokenCache holds tokenized documents, made once and read by every step. It is a directory of files of
// self-verifying blocks (block_file.h) and one file that describes them:
//
// tokens.bin: one u32 per token, little-endian: the id, and in bit 31 whether the token is to be predicted.
//
// documents.bin: two u64 per document: its end in tokens.bin, in tokens, and the number of predicted tokens
// up to there (a document's first token is never predicted: nothing comes before it).
//
// values.bin, only with objectives that read one: an f64 per document, such as the margin of a pair. Of
// documents to be scored, the number of the record from which each comes, from 0 on.
//
// shared.bin, only of units to be trained: a u32 per document: the tokens of the prompt that its sequences
// share, or that it shares with the document before it, and in bit 31 whether it belongs to that one's group.
//
// numbers.bin, only with objectives whose documents bring some (UnitSettings::numbers): f32s of each token,
// such as the log-probability at which it was sampled; NaN: not known.
//
// about.json: the cache key, counts, records that were left out, and checksums (XXH3) of the content of
// tokens.bin and of all others. The checksums identify a run's data. The file is sealed (base/text/seal.h)
// and written last.
//
// The writer uses another name, KEY.unfinished-RANDOM, and renames the directory at the end, so a cache is
// either complete or absent. While writing, it holds a lock (flock) on tokens.bin: an unfinished directory
// that can be locked is abandoned.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"
#include "data/batches/token_references.h"
#include "data/documents/answer_tokens.h"
#include "data/documents/bad_records.h"
#include "io/sudden_end.h"

namespace tidepool {

inline constexpr i64 token_cache_version = 2;
inline constexpr u32 follows_bit = 0x8000'0000;  // in shared.bin

struct CacheCounts {
  u64 documents = 0, tokens = 0;
  u64 learned = 0;        // tokens to be predicted
  u64 without_loss = 0;   // documents left out because they have nothing to learn
  u64 unknown_logps = 0;  // tokens of rollouts to be predicted, whose log-probability is not known
  bool operator==(const CacheCounts&) const = default;
};

// Files that not every cache has.
struct CacheParts {
  bool values = false;
  bool shared = false;
  u32 numbers = 0;  // of a token
};

class TokenCacheWriter {
 public:
  // Error: io, naming what cannot be written.
  // REQUIRES: `directory` does not exist.
  static Result<std::unique_ptr<TokenCacheWriter>> create(const std::string& directory,
                                                          const std::string& key, CacheParts = {});
  ~TokenCacheWriter();  // removes an unfinished cache

  // append() adds tokens to the current document, which may be larger than memory. end_document() closes it,
  // and drops it if no token but its first is learned.
  // `numbers`: [tokens, CacheParts::numbers].
  Result<void> append(std::span<const u32> tokens, std::span<const float> numbers = {});
  Result<void> end_document(double value = 0, SharedPrompt shared = {});
  // Makes the cache durable and visible. If another process has finished the same cache first, that one
  // stays.
  Result<void> finish();
  const CacheCounts& counts() const { return counts_; }
  void set_bad_records(BadRecords bad) { bad_ = std::move(bad); }
  const BadRecords& bad_records() const { return bad_; }

 private:
  struct Files;
  TokenCacheWriter(std::string directory, std::string key, CacheParts);
  Result<bool> make_unfinished();
  Result<void> flush();
  Result<void> write_blocks(const Fd&, const char* name);
  Result<void> write_about();
  std::string about() const;

  const std::string directory_, key_;
  const CacheParts parts_;
  std::string unfinished_;
  std::unique_ptr<Files> files_;
  // Tokens not written yet. The current document, from document_begin_ on, is held back until a token of it
  // is learned.
  std::vector<u32> tokens_;
  size_t document_begin_ = 0;
  std::vector<float> numbers_;  // of tokens_
  u64 document_tokens_ = 0, document_learned_ = 0, document_unknown_ = 0;
  std::vector<u64> ends_;       // content of documents.bin
  std::vector<double> values_;  // content of values.bin
  std::vector<u32> shared_;     // content of shared.bin
  CacheCounts counts_;
  BadRecords bad_;
};

class TokenCache {
 public:
  // Error: bad_input if the directory is damaged or made for another key; the message names the file and says
  // to remove the directory.
  static Result<std::unique_ptr<TokenCache>> open(const std::string& directory, const std::string& key);
  TokenCache(const TokenCache&) = delete;

  const CacheCounts& counts() const { return counts_; }
  const BadRecords& bad_records() const { return bad_; }
  const std::string& directory() const { return directory_; }
  const std::string& content() const { return content_; }  // checksum of the tokens: equal for equal content

  struct Document {
    u64 first = 0, tokens = 0;
    u64 learned = 0;  // of these tokens, without the first
    double value = 0;
    SharedPrompt shared;
  };
  // Reads verify the data, block by block.
  // THREADS: any, at any time.
  // Error: bad_input, naming the damaged file; io, naming a file that cannot be read.
  Result<Document> document(u64 index) const;
  Result<void> read(u64 first_token, std::span<u32> out) const;
  Result<u64> learned_in(u64 first_token, u64 count) const;
  bool has_values() const { return bool(values_); }
  u32 numbers() const { return numbers_per_token_; }  // 0: there are none
  // REQUIRES: `out` is a multiple of numbers(), which is not 0.
  Result<void> read_numbers(u64 first_token, std::span<float> out) const;
  // Numbers of a reference model or a teacher; null: none were attached. REQUIRES to attach: no reader yet.
  const TokenReferences* references() const { return references_.get(); }
  void attach(std::unique_ptr<TokenReferences> references) { references_ = std::move(references); }

 private:
  TokenCache() = default;
  Result<void> read_array(const Fd&, const std::string& path, u64 begin, std::span<std::byte> out) const;

  std::string directory_, content_;
  // Made once, because a step must not allocate.
  std::string tokens_path_, documents_path_, values_path_, shared_path_, numbers_path_;
  CacheCounts counts_;
  BadRecords bad_;
  Fd tokens_, documents_, values_, shared_, numbers_;
  u32 numbers_per_token_ = 0;
  std::unique_ptr<TokenReferences> references_;
};

// RETURNS: true if `directory` holds a cache of an older version of this format, which is no longer read.
bool is_old_cache(const std::string& directory);

// Removes unfinished caches in `directory` that no process is writing, whatever their keys.
void remove_unfinished_caches(const std::string& directory);

}  // namespace tidepool
