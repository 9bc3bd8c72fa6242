// LineReader reads the lines of a file, numbered from 1.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "data/files/byte_stream.h"

namespace tidepool {

class LineReader {
 public:
  static constexpr u64 record_bytes_max = 64 * mib;

  static Result<LineReader> open(const std::string& path, u64 line_bytes_max = record_bytes_max);

  // RETURNS: the next line without its line end (\n or \r\n), and without a byte order mark; none at the end.
  // The last line needs no \n.
  // Error: as ByteStream; bad_input, naming the line, if it is too long.
  Result<std::optional<std::string>> next();
  u64 line() const { return line_; }  // number of the last line that next() returned
  u64 bytes_read() const { return stream_->bytes_read(); }

 private:
  std::string path_;
  u64 line_bytes_max_ = 0;
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  size_t at_ = 0;
  u64 line_ = 0;
  bool ended_ = false;
};

}  // namespace tidepool
