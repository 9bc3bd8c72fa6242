// Names of directories in a run directory. Inside src/checkpoint.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tidepool/result.h"
#include "tidepool/types.h"

namespace tidepool {

// checkpoint-<step>, or checkpoint-<step>.<mark>-<pid> while it is on its way in or out.
enum class DirectoryMark : u8 {
  whole,  // a checkpoint
  tmp,    // being written
  old,    // pushed aside by a new one of the same step; goes back if that never arrived
  gone,   // being deleted
};

struct DirectoryName {
  u64 step = 0;
  DirectoryMark mark{};
  u64 pid = 0;
  bool operator==(const DirectoryName&) const = default;
};

std::string to_text(const DirectoryName&);
std::optional<DirectoryName> parse_directory_name(std::string_view);  // nothing: not ours

// All of ours in `run_dir`, in no order. None where there is no such directory; ErrorKind::io where it
// cannot be read.
Result<std::vector<DirectoryName>> list_directories(const std::string& run_dir);

}  // namespace tidepool
