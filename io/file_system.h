// Describes the file system under a path, even if the path does not exist yet.
#pragma once

#include <string>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// RETURNS: `dir`, or its nearest ancestor that exists, as an absolute path. A run makes the missing
// directories.
std::string existing_parent(const std::string& dir);

struct FileSystem {
  std::string dir;   // existing_parent of the directory that was asked about
  std::string name;  // "ext4"
  bool in_memory = false;
  bool pseudo = false;  // proc, sysfs: cannot hold user files
  Bytes free{};         // for this user
};

// Errors: ErrorKind::io if the existing ancestor cannot be examined either.
Result<FileSystem> look_at_file_system(const std::string& dir);

}  // namespace tidepool
