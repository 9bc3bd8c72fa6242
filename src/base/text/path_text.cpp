#include "base/text/path_text.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

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

std::string canonical_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = absolute_path(path);
  // Without absolute_path() a relative name of which nothing exists would stay relative.
  const std::filesystem::path out = std::filesystem::weakly_canonical(absolute, error);
  return without_slashes((error ? absolute.lexically_normal() : out).string());
}

bool is_within(const std::string& path, const std::string& directory) {
  std::error_code error;
  const std::filesystem::path at = std::filesystem::canonical(path, error);
  if (error) return false;
  const std::filesystem::path room = std::filesystem::canonical(directory, error);
  return !error && std::ranges::mismatch(room, at).in1 == room.end();
}

bool is_named(const std::string& path) {
  std::error_code error;
  return std::filesystem::symlink_status(path, error).type() != std::filesystem::file_type::not_found;
}

std::string_view dead_link(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error) || std::filesystem::exists(path, error)) return "";
  return error == std::errc::too_many_symbolic_link_levels ? "a link that leads back to itself"
                                                           : "a link that leads nowhere";
}

}  // namespace tidepool
