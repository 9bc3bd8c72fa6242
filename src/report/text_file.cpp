#include "report/text_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "tidepool/read_file.h"

namespace tidepool {
namespace {

struct Close {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, Close>;

Error fault(const char* what, const std::string& path) {
  return {ErrorKind::io, fmt::format("cannot {} {}: {}", what, path, std::strerror(errno))};
}

}  // namespace

Result<void> check_can_be_file(const std::string& path) {
  const std::string_view kind = irregular_kind(path);
  if (kind.empty()) return {};
  return Error{ErrorKind::io,
               fmt::format("cannot write {}: it is {}; move it away, or name another file", path, kind)};
}

Result<void> replace_text_file(const std::string& path, std::string_view text) {
  TRY(check_can_be_file(path));
  const std::string temporary = path + ".tmp";
  TRY(check_can_be_file(temporary));
  File file(std::fopen(temporary.c_str(), "wb"));
  if (!file) return fault("create", temporary);
  const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  if (!written || std::fclose(file.release()) != 0) {
    const Error error = fault("write", temporary);
    std::remove(temporary.c_str());
    return error;
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return fault("replace", path);
  return {};
}

Result<std::string> read_text_file(const std::string& path) {
  return read_small_file(path, text_file_bytes_max, ErrorKind::bad_input);
}

}  // namespace tidepool
