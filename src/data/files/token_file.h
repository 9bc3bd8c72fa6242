// TokenFile is one file of tokens: bytes of text, or token ids in the formats of llm.c, nanoGPT and NumPy.
// Keeps none of the content in memory.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/fd.h"
#include "config/config.h"

namespace tidepool {

class TokenFile {
 public:
  // Reads the first bytes and the size. `automatic`: llm.c by its magic number, else nanoGPT for names in
  // .bin, NumPy for names in .npy, else text.
  // Error: bad_input, naming the file and what is wrong.
  static Result<TokenFile> open(const std::string& path, DataFormat);

  const std::string& path() const { return path_; }
  DataFormat format() const { return format_; }
  u64 tokens() const { return tokens_; }
  u32 token_bytes() const { return token_bytes_; }  // 1, 2, 4 or 8

  // Reads tokens [first, first + out.size()).
  // THREADS: any, at any time.
  // Error: io; bad_input if an id is not below vocab_size.
  Result<void> read(u64 first, std::span<i32> out, u32 vocab_size) const;

  // Reads the file once and checks it: text must be UTF-8, ids below vocab_size. `visit` gets the bytes, for
  // a fingerprint. Token files larger than scan_limit are sampled evenly (read() checks every id anyway).
  Result<void> scan(u32 vocab_size, const std::function<void(std::span<const std::byte>)>& visit) const;

  static constexpr Bytes scan_limit{4 * gib};
  static constexpr Bytes scan_piece{1 * mib};

 private:
  Result<void> read_bytes(u64 offset, std::span<std::byte> out) const;
  Result<void> recognise(Bytes size);
  Result<void> recognise_llmc(Bytes size);
  Result<void> recognise_npy(Bytes size);
  Result<void> read_npy_header(std::string_view header);
  Result<void> scan_piece_at(u64 first, std::span<const std::byte> piece, u32 vocab_size) const;
  Error bad_token(u64 token, u64 id, u32 vocab_size) const;

  std::string path_;
  Fd file_;
  DataFormat format_ = DataFormat::text;
  u64 header_bytes_ = 0;
  u32 token_bytes_ = 1;
  u64 tokens_ = 0;
};

}  // namespace tidepool
