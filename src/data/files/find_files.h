// Finds the files that a config's `data.train` names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

enum class FoundBy : u8 { name, pattern, directory };

struct FoundFile {
  std::string path;
  FoundBy by = FoundBy::directory;

  bool operator==(const FoundFile&) const = default;
};

// True if the path ends in `ending`, such as ".npy", in capital or small letters.
bool has_ending(std::string_view path, std::string_view ending);
// Path without its ending .gz, .zst or .zstd.
std::string without_packing(std::string path);

// Finds files by name, by glob, and below directories (every regular file). Entries keep their order; the
// files of one entry are sorted by name (by bytes, not by locale). Hidden files in directories and globs are
// skipped. `named_in` is the key to correct, for errors.
// Error: bad_input if an entry finds nothing, or contains ** (which glob(3) treats as one level of
// directories); if a pipe, a device or a dead link is found; if a link found in a directory, or by a glob,
// leads to a directory outside.
Result<std::vector<FoundFile>> find_files(const std::vector<std::string>& entries,
                                          std::string_view named_in = "data.train");

}  // namespace tidepool
