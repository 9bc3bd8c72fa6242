// cgroup_folders() lists the folders of this process's cgroups (v1 and v2), which hold the files with limits.
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

// RETURNS: folders from the process's own group up to the mount: the limit of any of them may bind.
// `controller`: "memory", "pids".
// `root` is put before /proc and /sys, so that tests can lay out a machine of their own.
std::vector<CgroupFolder> cgroup_folders(std::string_view controller, const std::string& root = "");

// Number in a file; none if the file says "max" or does not exist.
std::optional<u64> number_in_file(const std::string& path);

}  // namespace tidepool
