#include "io/memory_limits.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

namespace tidepool {
namespace {

// cgroup v1 writes "no limit" as the largest page-aligned number; nobody has an exbibyte.
constexpr u64 no_limit_bytes = u64{1} << 60;
constexpr u32 cap_ipc_lock = 14;

std::optional<u64> read_number(const std::string& path) {
  std::ifstream in(path);
  u64 value = 0;
  if (in >> value) return value;
  return std::nullopt;  // "max", or no such file
}

struct Mount {
  bool v2 = false;
  std::string root, point;  // the hierarchy's folder that is mounted, and where
};

// Lines of mountinfo: "id parent dev ROOT POINT options... - TYPE source super-options".
std::vector<Mount> memory_mounts(const std::string& root) {
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
    bool v1 = type == "cgroup" && fmt::format(",{},", options).find(",memory,") != std::string::npos;
    if (mount.v2 || v1) mounts.push_back(mount);
  }
  return mounts;
}

// Lines of /proc/self/cgroup: "0::/path" (v2) and "4:memory:/path" (v1).
std::string cgroup_path(const std::string& root, bool v2) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    bool match = v2 ? controllers == ",," : controllers.find(",memory,") != std::string::npos;
    if (match) return line.substr(second + 1);
  }
  return "/";
}

// memory.stat of v2 and v1: what cannot be dropped. The page cache can, and so can the kernel's caches of
// names.
Bytes used_in(const std::string& folder, bool v2) {
  u64 used = 0, droppable = 0;
  std::ifstream in(folder + "/memory.stat");
  std::string key;
  for (u64 value = 0; in >> key >> value;) {
    if (v2 ? key == "anon" || key == "kernel" || key == "shmem" : key == "total_rss" || key == "total_shmem")
      used += value;
    if (v2 && key == "slab_reclaimable") droppable = value;
  }
  return Bytes{used - std::min(used, droppable)};
}

void tighten(MemoryLimits& limits, const std::string& file, u64 value, Bytes used) {
  if (value >= no_limit_bytes) return;
  // The one with least left binds.
  const auto left = [](u64 limit, Bytes taken) { return limit - std::min(limit, taken.value); };
  if (limits.cgroup && left(limits.cgroup->value, limits.cgroup_used) <= left(value, used)) return;
  limits.cgroup = Bytes{value};
  limits.cgroup_used = used;
  limits.cgroup_file = file;
}

// From the process's own group up to the mount: any of them may bind.
void read_cgroup(MemoryLimits& limits, const std::string& root, const Mount& mount) {
  std::string path = cgroup_path(root, mount.v2);
  if (mount.root != "/" && path.starts_with(mount.root)) path = path.substr(mount.root.size());
  const char* name = mount.v2 ? "memory.max" : "memory.limit_in_bytes";
  while (true) {
    if (path == "/") path.clear();
    const std::string folder = root + mount.point + path;
    const std::string file = folder + "/" + name;
    if (auto value = read_number(file)) tighten(limits, file, *value, used_in(folder, mount.v2));
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

void read_meminfo(MemoryLimits& limits, const std::string& root) {
  std::ifstream in(root + "/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    u64 kilobytes = 0;
    words >> key >> kilobytes;
    if (key == "MemTotal:") limits.total = {kilobytes * kib};
    if (key == "MemAvailable:") limits.available = {kilobytes * kib};
  }
}

bool may_lock_any(const std::string& root) {
  std::ifstream in(root + "/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("CapEff:"))
      return (std::stoull(line.substr(7), nullptr, 16) >> cap_ipc_lock & 1) != 0;
  }
  return false;
}

std::optional<Bytes> soft_limit(__rlimit_resource which) {
  rlimit limit{};
  if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return Bytes{limit.rlim_cur};
}

}  // namespace

MemoryLimits read_memory_limits(const std::string& root) {
  MemoryLimits limits;
  for (const Mount& mount : memory_mounts(root)) read_cgroup(limits, root, mount);
  read_meminfo(limits, root);
  if (!may_lock_any(root)) limits.locked = soft_limit(RLIMIT_MEMLOCK);
  limits.address_space = soft_limit(RLIMIT_AS);
  return limits;
}

Result<void> check_memory(const MemoryLimits& limits, Bytes needed, Bytes beside) {
  const Bytes more = needed + beside;
  const std::string extra =
      beside.value == 0
          ? ""
          : fmt::format(" and {} that the process takes beside the budgets", format_bytes(beside));
  if (limits.cgroup && *limits.cgroup < limits.cgroup_used + more) {
    const std::string used = limits.cgroup_used.value == 0
                                 ? ""
                                 : fmt::format(" on top of {} in use", format_bytes(limits.cgroup_used));
    return Error{
        ErrorKind::does_not_fit,
        fmt::format(
            "the cgroup limit {} ({}) is below the {} of memory asked for{}{}: raise it by {} (docker "
            "--memory, systemd MemoryMax=), or lower memory.host or memory.device by as much",
            format_bytes(*limits.cgroup), limits.cgroup_file, format_bytes(needed), extra, used,
            format_bytes(limits.cgroup_used + more - *limits.cgroup))};
  }
  if (limits.available.value != 0 && limits.available < more) {
    return Error{
        ErrorKind::does_not_fit,
        fmt::format("this machine has {} of memory available ({} in all), {} less than the {} asked for{}: "
                    "lower memory.host or memory.device by as much, or end other programs",
                    format_bytes(limits.available), format_bytes(limits.total),
                    format_bytes(more - limits.available), format_bytes(needed), extra)};
  }
  if (limits.address_space && *limits.address_space < more) {
    return Error{
        ErrorKind::does_not_fit,
        fmt::format("the address space limit {} is below the {} of memory asked for{}: `ulimit -v unlimited`",
                    format_bytes(*limits.address_space), format_bytes(needed), extra)};
  }
  return {};
}

std::string explain_memlock(const MemoryLimits& limits, Bytes needed) {
  if (!limits.locked || *limits.locked >= needed) return "";
  return fmt::format(
      "the memlock limit {} is below {}: raise it with `ulimit -l unlimited` or in "
      "/etc/security/limits.conf",
      format_bytes(*limits.locked), format_bytes(needed));
}

std::string format_bytes(Bytes bytes) {
  constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes.value < kib) return fmt::format("{} B", bytes.value);
  double value = static_cast<double>(bytes.value) / kib;
  u32 unit = 0;
  while (value >= 1024 && unit < 3) value /= 1024, ++unit;
  return fmt::format("{:.2f} {}", value, units[unit]);
}

}  // namespace tidepool
