// What lies under a path that may not exist yet.
#pragma once

#include <string>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

// The directory itself, or the nearest one above it that exists: a run makes the rest. Absolute.
std::string existing_parent(const std::string& dir);

struct FileSystem {
  std::string dir;   // existing_parent of what was asked for
  std::string name;  // "ext4"
  bool in_memory = false;
  bool pseudo = false;  // proc, sysfs: nobody's files can lie there
  Bytes free{};         // for this user
};

// ErrorKind::io where even that cannot be looked at.
Result<FileSystem> look_at_file_system(const std::string& dir);

}  // namespace tidepool
