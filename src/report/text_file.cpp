#include "report/text_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace tidepool {
namespace {

struct Close {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, Close>;

Error fault(ErrorKind kind, const char* what, const std::string& path) {
  return {kind, fmt::format("cannot {} {}: {}", what, path, std::strerror(errno))};
}

}  // namespace

Result<void> replace_text_file(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  File file(std::fopen(temporary.c_str(), "wb"));
  if (!file) return fault(ErrorKind::io, "create", temporary);
  const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  if (!written || std::fclose(file.release()) != 0) {
    const Error error = fault(ErrorKind::io, "write", temporary);
    std::remove(temporary.c_str());
    return error;
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return fault(ErrorKind::io, "replace", path);
  return {};
}

Result<std::string> read_text_file(const std::string& path) {
  File file(std::fopen(path.c_str(), "rb"));
  if (!file) return fault(ErrorKind::bad_input, "open", path);
  std::string text;
  char piece[1 << 16];
  std::size_t n = 0;
  while ((n = std::fread(piece, 1, sizeof piece, file.get())) > 0) text.append(piece, n);
  if (std::ferror(file.get()) != 0) return fault(ErrorKind::io, "read", path);
  return text;
}

}  // namespace tidepool
