// Lines of a file, counted as people count them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data/files/byte_stream.h"

namespace tidepool {

class LineReader {
 public:
  static constexpr u64 line_bytes_max = 64 * mib;

  static Result<LineReader> open(const std::string& path);

  // Without its end (\n or \r\n), and the first without a byte order mark; none at the end. A last line needs
  // no \n. Errors as ByteStream; ErrorKind::bad_input naming the line where one is too long.
  Result<std::optional<std::string>> next();
  u64 line() const { return line_; }  // of what next() gave last, from 1
  u64 bytes_read() const { return stream_->bytes_read(); }

 private:
  std::string path_;
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  size_t at_ = 0;
  u64 line_ = 0;
  bool ended_ = false;
};

}  // namespace tidepool
