#include "io/memory_limits.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/process/cgroup.h"
#include "base/process/limits.h"

namespace tidepool {
namespace {

// cgroup v1 writes "no limit" as the largest page-aligned number. No machine has an exbibyte.
constexpr u64 no_limit_bytes = u64{1} << 60;
constexpr u32 cap_ipc_lock = 14;

// Reads memory.stat of v2 or v1 and counts the memory that the kernel cannot drop. The page cache and the
// caches of names (dentries, inodes) can be dropped.
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
  // The limit with the least memory left binds.
  const auto left = [](u64 limit, Bytes taken) { return limit - std::min(limit, taken.value); };
  if (limits.cgroup && left(limits.cgroup->value, limits.cgroup_used) <= left(value, used)) return;
  limits.cgroup = Bytes{value};
  limits.cgroup_used = used;
  limits.cgroup_file = file;
}

void read_cgroups(MemoryLimits& limits, const std::string& root) {
  for (const auto& [v2, folder] : cgroup_folders("memory", root)) {
    const std::string file = folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes");
    if (auto value = number_in_file(file)) tighten(limits, file, *value, used_in(folder, v2));
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

}  // namespace

MemoryLimits read_memory_limits(const std::string& root) {
  MemoryLimits limits;
  read_cgroups(limits, root);
  read_meminfo(limits, root);
  if (!may_lock_any(root)) limits.locked = soft_limit_bytes(RLIMIT_MEMLOCK);
  limits.address_space = soft_limit_bytes(RLIMIT_AS);
  limits.address_space_used = address_space_used();
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
  if (limits.address_space && *limits.address_space < limits.address_space_used + more) {
    return Error{
        ErrorKind::does_not_fit,
        fmt::format(
            "the limit on address space, {} (ulimit -v), is below the {} of memory asked for{} on top of "
            "{} in use: raise it with `ulimit -v unlimited`, or lower memory.host or memory.device by {}",
            format_bytes(*limits.address_space), format_bytes(needed), extra,
            format_bytes(limits.address_space_used),
            format_bytes(limits.address_space_used + more - *limits.address_space))};
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
