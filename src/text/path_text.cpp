#include "text/path_text.h"

#include <filesystem>

namespace tidepool {

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path out = std::filesystem::absolute(path, error);
  return error ? path : out.string();
}

}  // namespace tidepool
