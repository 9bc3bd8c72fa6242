// Which files a config's `data.train` names.
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

// Without the .gz, .zst or .zstd at its end.
std::string without_packing(std::string path);

// Files as named, directories with every regular file below them, globs; the entries in their given
// order, what an entry finds sorted by name (bytes, not locale). Hidden files are left out of
// directories and globs. ErrorKind::bad_input if an entry finds nothing, or has ** (which glob(3) takes for
// one level of directories); `named_in` says what is to be corrected.
Result<std::vector<FoundFile>> find_files(const std::vector<std::string>& entries,
                                          std::string_view named_in = "data.train");

}  // namespace tidepool
