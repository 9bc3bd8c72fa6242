#include "data/files/find_files.h"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/text/lowercase.h"
#include "base/text/path_text.h"

namespace tidepool {

namespace {

namespace fs = std::filesystem;

// Error of a path that is a pipe, a device, a socket, or a link that leads nowhere, or that cannot be looked
// at.
Error neither(const std::string& path, std::string_view named_in) {
  const std::string_view link = dead_link(path);
  std::error_code fault;
  (void)fs::status(path, fault);
  if (fault && link.empty())
    return bad_input(fmt::format("{}: cannot look at it: {}; correct {}", path, fault.message(), named_in));
  return bad_input(
      link.empty() ? fmt::format("{}: is neither a regular file nor a directory; move it away, or correct {}",
                                 path, named_in)
                   : fmt::format("{}: is {}; correct it, or {}", path, link, named_in));
}

// Refuses a link to a directory outside of `room`.
Result<void> check_stays_in(const std::string& path, const std::string& room, std::string_view named_in) {
  std::error_code unused;
  if (!fs::is_symlink(path, unused) || is_within(path, room)) return {};
  return bad_input(fmt::format(
      "{}: is a link to the directory {}, which is not below {}; such links are not followed: name that "
      "directory in {} too, or remove the link",
      path, fs::canonical(path, unused).string(), room, named_in));
}

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

// Walk lists the files below a data directory. A link to a file is followed wherever it leads: the files of a
// hub's cache are links to blobs. A link to a directory is followed within the data directory only: one that
// leads out could lead to everything.
class Walk {
 public:
  Walk(std::string root, std::string_view named_in) : root_(std::move(root)), named_in_(named_in) {}

  Result<std::vector<std::string>> files() {
    TRY(add_below(root_));
    std::ranges::sort(files_);
    return std::move(files_);
  }

 private:
  Result<void> add_below(const std::string& directory) {
    struct stat st {};
    if (::stat(directory.c_str(), &st) == 0 && !visited_.insert({st.st_dev, st.st_ino}).second) return {};
    std::error_code fault;
    std::vector<fs::path> paths;
    for (auto entry = fs::directory_iterator(directory, fault); !fault && entry != fs::directory_iterator();
         entry.increment(fault)) {
      if (!is_hidden(entry->path())) paths.push_back(entry->path());
    }
    if (fault) return bad_input(fmt::format("{}: cannot list the directory: {}", directory, fault.message()));
    std::ranges::sort(paths);  // if several paths lead to one directory, the first by name counts
    for (const fs::path& path : paths) TRY(add(path.string()));
    return {};
  }

  Result<void> add(const std::string& path) {
    std::error_code unused;
    if (fs::is_regular_file(path, unused)) {
      files_.push_back(path);
      return {};
    }
    if (!fs::is_directory(path, unused)) return neither(path, named_in_);
    TRY(check_stays_in(path, root_, named_in_));
    return add_below(path);
  }

  const std::string root_;
  const std::string_view named_in_;
  // Visited directories by device and inode, not by name: links may lead upwards and in circles.
  std::set<std::pair<dev_t, ino_t>> visited_;
  std::vector<std::string> files_;
};

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

// Adds a file, or everything below a directory.
Result<void> add_path(const std::string& path, FoundBy by, std::string_view named_in,
                      std::vector<FoundFile>& out) {
  std::error_code unused;
  if (fs::is_regular_file(path, unused)) {
    out.push_back({.path = path, .by = by});
    return {};
  }
  if (!fs::is_directory(path, unused)) return neither(path, named_in);
  const std::string above = fs::path(path).parent_path().string();
  if (by == FoundBy::pattern) TRY(check_stays_in(path, above.empty() ? "." : above, named_in));
  TRY_ASSIGN(const std::vector<std::string> files, Walk(path, named_in).files());
  for (const std::string& file : files) out.push_back({.path = file});
  return {};
}

Result<void> add_entry(const std::string& entry, std::string_view named_in, std::vector<FoundFile>& out) {
  const size_t before = out.size();
  std::error_code unused;
  if (is_named(entry)) {
    TRY(add_path(entry, FoundBy::name, named_in, out));
    if (out.size() > before) return {};
    return bad_input(fmt::format("{}: the directory holds no files; correct {}", entry, named_in));
  }
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
  for (const std::string& path : glob_matches(entry)) TRY(add_path(path, FoundBy::pattern, named_in, out));
  if (out.size() > before) return {};
  return bad_input(fmt::format("{}: the pattern matches no file; correct {}", entry, named_in));
}

}  // namespace

bool has_ending(std::string_view path, std::string_view ending) {
  return path.size() >= ending.size() && lowercase(path.substr(path.size() - ending.size())) == ending;
}

std::string without_packing(std::string path) {
  for (const std::string_view end : {".gz", ".zst", ".zstd"}) {
    if (has_ending(path, end)) return path.substr(0, path.size() - end.size());
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
