// TokenReferences holds what another model says of each token of a token cache: its log-probability by a
// reference model, or the numbers of a teacher's distribution. A file of self-verifying blocks (block_file.h)
// with a header and f32s for each token, little-endian, 0 for tokens that are not to be predicted. The header
// and the file's name have a key of everything that the numbers depend on.
//
// The writer uses another name, FILE.unfinished, which it renames at the end. While writing it holds a lock
// (flock) on that file. A file that was left unfinished is continued behind its last whole block.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"
#include "data/files/block_file.h"

namespace tidepool {

class TokenReferences {
 public:
  static std::string path(const std::string& cache_directory, const std::string& key);
  // RETURNS: null if there is no such file.
  // Error: bad_input if it is damaged, or made for another key; the message names it and says to remove it.
  static Result<std::unique_ptr<TokenReferences>> open(const std::string& path, const std::string& key,
                                                       u64 tokens, u32 numbers_per_token = 1);
  // THREADS: any, at any time.
  // Error: bad_input, naming the damaged file; io, naming a file that cannot be read.
  // REQUIRES: `out` is a multiple of the numbers per token.
  Result<void> read(u64 first_token, std::span<float> out) const;

 private:
  std::string path_;
  Fd file_;
  u32 numbers_per_token_ = 1;
};

class TokenReferencesWriter {
 public:
  // Waits while another process is writing it. `all`: tokens of the cache.
  // RETURNS: null if the file has been finished meanwhile.
  // Error: io, naming what cannot be written.
  static Result<std::unique_ptr<TokenReferencesWriter>> create(const std::string& path,
                                                               const std::string& key, u64 all,
                                                               u32 numbers_per_token = 1);
  // Tokens from the first one on that the unfinished file has.
  u64 tokens() const { return tokens_; }
  // Keeps the first `tokens` of them. REQUIRES: before append(); at most tokens().
  Result<void> keep(u64 tokens);
  Result<void> append(std::span<const float>);  // of whole tokens
  // Makes the file durable and visible.
  Result<void> finish();

 private:
  TokenReferencesWriter(std::string path, std::string key, u32 numbers_per_token)
      : path_(std::move(path)), key_(std::move(key)), numbers_per_token_(numbers_per_token) {}
  Result<bool> lock();
  Result<void> find_whole_blocks(u64 all);

  const std::string path_, key_;
  const u32 numbers_per_token_;
  std::string unfinished_;
  Fd file_;
  BlockEncoder encoder_;
  std::vector<std::byte> blocks_;  // about to be written
  u64 tokens_ = 0;
};

}  // namespace tidepool
