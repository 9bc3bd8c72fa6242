#include "data/files/line_reader.h"

#include <fmt/format.h>

namespace tidepool {

namespace {

constexpr size_t piece_bytes = 256 * kib;

}  // namespace

Result<LineReader> LineReader::open(const std::string& path, u64 line_bytes_max) {
  LineReader out;
  out.line_bytes_max_ = line_bytes_max;
  out.path_ = path;
  TRY_ASSIGN(out.stream_, open_byte_stream(path));
  return out;
}

Result<std::optional<std::string>> LineReader::next() {
  size_t searched = at_;
  while (true) {
    size_t end = buffer_.find('\n', searched);
    if (end == buffer_.npos && ended_ && at_ < buffer_.size()) end = buffer_.size();
    if (end != buffer_.npos) {
      std::string_view line = std::string_view(buffer_).substr(at_, end - at_);
      at_ = std::min(end + 1, buffer_.size());
      if (++line_ == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
      if (line.ends_with('\r')) line.remove_suffix(1);
      return std::optional<std::string>(line);
    }
    if (ended_) return std::optional<std::string>();
    buffer_.erase(0, at_);
    at_ = 0;
    searched = buffer_.size();
    if (buffer_.size() > line_bytes_max_)
      return Error{ErrorKind::bad_input,
                   fmt::format("{}:{}: the line has more than {} bytes; is it a file of lines?", path_,
                               line_ + 1, line_bytes_max_)};
    buffer_.resize(searched + piece_bytes);
    const Result<size_t> got = stream_->read(std::span(buffer_).subspan(searched));
    buffer_.resize(searched + (got ? *got : 0));
    if (!got) return got.error();
    ended_ = *got == 0;
  }
}

}  // namespace tidepool
