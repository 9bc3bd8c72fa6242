// Folders of this process's cgroups (v1 and v2), where the files of their limits stand.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tidepool {

struct CgroupFolder {
  bool v2 = false;
  std::string path;
};

// From the process's own group up to the mount: any of them may bind. `controller`: "memory", "pids".
// `root` stands before /proc and /sys, so that tests can lay out a machine of their own.
std::vector<CgroupFolder> cgroup_folders(std::string_view controller, const std::string& root = "");

// The number that a file holds. Nothing: "max", or no such file.
std::optional<u64> number_in_file(const std::string& path);

}  // namespace tidepool
