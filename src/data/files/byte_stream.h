// The bytes of a file as people write them: plain, or out of gzip or zstd, which the first bytes tell.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

enum class Packed : u8 { no, gzip, zstd };

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // The next bytes, as many as there are at hand; 0 at the end only. Blocks. ErrorKind::bad_input if the file
  // is damaged or cut off (naming it and the offset), ErrorKind::io if it cannot be read.
  virtual Result<size_t> read(std::span<char> out) = 0;
  // Of the file, not of what it unpacks to.
  virtual u64 bytes_read() const = 0;
};

// ErrorKind::bad_input if there is no such file. Memory: some 256 KiB, with zstd what its window takes (at
// most 128 MiB).
Result<std::unique_ptr<ByteStream>> open_byte_stream(const std::string& path);
Result<Packed> packing_of(const std::string& path);
// ErrorKind::bad_input for what is neither text nor packed text, by what it begins with: Parquet, archives,
// PDF.
Result<void> check_readable_kind(const std::string& path);

}  // namespace tidepool
