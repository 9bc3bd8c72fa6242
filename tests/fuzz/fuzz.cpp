#include "tests/fuzz/fuzz.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/check.h"

namespace tidepool::fuzz {

void check_refusal(const Error& error, std::initializer_list<ErrorKind> kinds) {
  CHECK(std::ranges::find(kinds, error.kind) != kinds.end(), error.message);
  CHECK(error.message.find("fuzz") != std::string::npos && error.message.size() > 8, error.message);
}

const std::string& directory() {
  struct Scratch {
    std::string path;
    Scratch()
        : path((::access("/dev/shm", W_OK) == 0 ? "/dev/shm"
                                                : std::filesystem::temp_directory_path().string()) +
               "/fuzz-XXXXXX") {
      CHECK(::mkdtemp(path.data()) != nullptr, path);
    }
    ~Scratch() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Scratch scratch;
  return scratch.path;
}

std::string folder(const std::string& name) {
  std::string path = directory() + "/" + name;
  std::filesystem::create_directory(path);
  return path;
}

std::string file(const std::string& name, std::string_view content) {
  std::string path = directory() + "/" + name;
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
  return path;
}

void file_if_any(const std::string& name, std::string_view content) {
  if (content.empty())
    std::filesystem::remove(directory() + "/" + name);
  else
    file(name, content);
}

std::vector<std::string_view> parts(std::string_view input, size_t count) {
  std::vector<std::string_view> out;
  while (out.size() + 1 < count) {
    const size_t end = std::min(input.find('\0'), input.size());
    out.push_back(input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  out.push_back(input);
  return out;
}

}  // namespace tidepool::fuzz
