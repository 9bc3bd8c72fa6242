// ByteStream reads a file's bytes: plain, or decompressed from gzip or zstd, detected by the first bytes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

enum class Packed : u8 { no, gzip, zstd };

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Reads the bytes that are available now; 0 only at the end. Blocks.
  // Error: bad_input if the file is damaged or truncated (naming it and the offset); io if it cannot be read.
  virtual Result<size_t> read(std::span<char> out) = 0;
  // Bytes of the file itself, not of its decompressed content.
  virtual u64 bytes_read() const = 0;
};

// Memory: about 256 KiB; with zstd also its window, at most 128 MiB.
// Error: bad_input if there is no such file.
Result<std::unique_ptr<ByteStream>> open_byte_stream(const std::string& path);
Result<Packed> packing_of(const std::string& path);
// Error: bad_input for Parquet, archives, PDF and other files that are neither text nor compressed text,
// detected by the first bytes.
Result<void> check_readable_kind(const std::string& path);
// The same for content that begins with `begin`, perhaps after decompression.
Result<void> check_readable_content(const std::string& path, std::string_view begin);

}  // namespace tidepool
