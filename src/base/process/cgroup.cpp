#include "base/process/cgroup.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

namespace tidepool {
namespace {

struct Mount {
  bool v2 = false;
  std::string root, point;  // folder of the hierarchy that is mounted, and its mount point
};

bool lists(const std::string& words, std::string_view word) {
  return fmt::format(",{},", words).find(fmt::format(",{},", word)) != std::string::npos;
}

// Reads lines of mountinfo: "id parent dev ROOT POINT options... - TYPE source super-options".
std::vector<Mount> mounts_of(std::string_view controller, const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream in(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream left(line.substr(0, dash)), right(line.substr(dash + 3));
    std::string skip, type, source, options;
    Mount mount;
    left >> skip >> skip >> skip >> mount.root >> mount.point;
    right >> type >> source >> options;
    mount.v2 = type == "cgroup2";
    if (mount.v2 || (type == "cgroup" && lists(options, controller))) mounts.push_back(mount);
  }
  return mounts;
}

// Reads lines of /proc/self/cgroup: "0::/path" (v2) and "4:memory:/path" (v1).
std::string path_in(const Mount& mount, std::string_view controller, const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (mount.v2 ? controllers.empty() : lists(controllers, controller)) return line.substr(second + 1);
  }
  return "/";
}

}  // namespace

std::vector<CgroupFolder> cgroup_folders(std::string_view controller, const std::string& root) {
  std::vector<CgroupFolder> folders;
  for (const Mount& mount : mounts_of(controller, root)) {
    std::string path = path_in(mount, controller, root);
    if (mount.root != "/" && path.starts_with(mount.root)) path = path.substr(mount.root.size());
    while (true) {
      if (path == "/") path.clear();
      folders.push_back({.v2 = mount.v2, .path = root + mount.point + path});
      if (path.empty()) break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return folders;
}

std::optional<u64> number_in_file(const std::string& path) {
  std::ifstream in(path);
  u64 value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

}  // namespace tidepool
