// TokenWriter writes a token file in llm.c's format: 256 x int32 {20240520, 1, tokens, 0 ...} and uint16 ids,
// or {20240801, 7, tokens, 0 ...} and uint32 ids. Little-endian.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"
#include "io/sudden_end.h"

namespace tidepool {

// Writes to "PATH.partial" until finish(). Without finish() the partial file is removed with the writer, or
// when the process ends.
// Error: io, naming the file.
class TokenWriter {
 public:
  // Uses uint16 if all ids of the vocabulary fit.
  static Result<std::unique_ptr<TokenWriter>> create(const std::string& path, u32 vocab_size);
  ~TokenWriter();
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  Result<void> append(std::span<const u32> ids);
  Result<void> finish();  // the complete file is durable on return

  u64 tokens() const { return tokens_; }
  u32 token_bytes() const { return token_bytes_; }

  // The count in the header has 32 bits.
  static constexpr u64 tokens_max = 0xffff'ffff;

 private:
  TokenWriter(std::string path, u32 vocab_size);
  Result<void> write_at(u64 offset, std::span<const std::byte>);
  Result<void> flush();

  std::string path_, partial_;
  Fd file_;
  RemovedAtSuddenEnd leftover_;
  u32 token_bytes_;
  u64 tokens_ = 0;
  u64 written_;  // bytes
  std::vector<std::byte> buffer_;
};

}  // namespace tidepool
