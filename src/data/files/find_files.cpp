#include "data/files/find_files.h"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/text/path_text.h"

namespace tidepool {

namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

// Visited directories by device and inode, not by name: links may lead upwards and in circles.
using Visited = std::set<std::pair<dev_t, ino_t>>;

Result<void> add_below(const std::string& directory, Visited& visited, std::vector<std::string>& files) {
  struct stat st {};
  if (::stat(directory.c_str(), &st) == 0 && !visited.insert({st.st_dev, st.st_ino}).second) return {};
  std::error_code fault;
  std::vector<fs::path> paths;
  for (auto entry = fs::directory_iterator(directory, fault); !fault && entry != fs::directory_iterator();
       entry.increment(fault)) {
    if (!is_hidden(entry->path())) paths.push_back(entry->path());
  }
  if (fault) return bad_input(fmt::format("{}: cannot list the directory: {}", directory, fault.message()));
  std::ranges::sort(paths);  // if several paths lead to one directory, the first by name counts
  for (const fs::path& path : paths) {
    std::error_code broken_link;  // a broken link is ignored
    if (fs::is_regular_file(path, broken_link)) files.push_back(path.string());
    if (fs::is_directory(path, broken_link)) TRY(add_below(path.string(), visited, files));
  }
  return {};
}

Result<std::vector<std::string>> files_below(const std::string& directory) {
  std::vector<std::string> files;
  Visited visited;
  TRY(add_below(directory, visited, files));
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> glob_matches(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found{};
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  std::ranges::sort(paths);
  return paths;
}

// Adds a file, or everything below a directory; ignores anything else, such as a socket.
Result<void> add_path(const std::string& path, const std::string& entry, std::vector<FoundFile>& out) {
  std::error_code unused;
  if (fs::is_directory(path, unused)) {
    TRY_ASSIGN(const std::vector<std::string> files, files_below(path));
    for (const std::string& file : files) out.push_back({.path = file});
  } else if (fs::is_regular_file(path, unused)) {
    out.push_back({.path = path, .by = path == entry ? FoundBy::name : FoundBy::pattern});
  }
  return {};
}

Result<void> add_entry(const std::string& entry, std::string_view named_in, std::vector<FoundFile>& out) {
  const size_t before = out.size();
  std::error_code unused;
  if (fs::exists(entry, unused)) {
    TRY(add_path(entry, entry, out));
    if (out.size() > before) return {};
    return bad_input(
        fs::is_directory(entry, unused)
            ? fmt::format("{}: the directory holds no files; correct {}", entry, named_in)
            : fmt::format("{}: is neither a regular file nor a directory; correct {}", entry, named_in));
  }
  if (const std::string_view link = dead_link(entry); !link.empty())
    return bad_input(fmt::format("{}: is {}; correct it, or {}", entry, link, named_in));
  if (entry.find_first_of("*?[") == std::string::npos) {
    return bad_input(fmt::format("{}: no such data file (looked from {}); correct {}", entry,
                                 fs::current_path(unused).string(), named_in));
  }
  if (entry.find("**") != std::string::npos) {
    return bad_input(
        fmt::format("{}: ** for any depth is not supported; name the directory: every file below it is read; "
                    "correct {}",
                    entry, named_in));
  }
  for (const std::string& path : glob_matches(entry)) TRY(add_path(path, entry, out));
  if (out.size() > before) return {};
  return bad_input(fmt::format("{}: the pattern matches no file; correct {}", entry, named_in));
}

}  // namespace

std::string without_packing(std::string path) {
  for (const std::string_view end : {".gz", ".zst", ".zstd"}) {
    if (path.ends_with(end)) return path.substr(0, path.size() - end.size());
  }
  return path;
}

Result<std::vector<FoundFile>> find_files(const std::vector<std::string>& entries,
                                          std::string_view named_in) {
  std::vector<FoundFile> files;
  for (const std::string& entry : entries) TRY(add_entry(entry, named_in, files));
  return files;
}

}  // namespace tidepool
