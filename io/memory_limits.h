// What this process may take: cgroup limits (v1 and v2), MemAvailable, RLIMIT_MEMLOCK, RLIMIT_AS.
#pragma once

#include <optional>
#include <string>

#include "tidepool/result.h"
#include "tidepool/types.h"

namespace tidepool {

struct MemoryLimits {
  std::optional<Bytes> cgroup;         // the tightest on the way up; empty: none
  std::string cgroup_file;             // where it stands, for messages
  Bytes total{}, available{};          // MemTotal, MemAvailable
  std::optional<Bytes> locked;         // RLIMIT_MEMLOCK; empty: unlimited, or CAP_IPC_LOCK
  std::optional<Bytes> address_space;  // RLIMIT_AS; empty: unlimited
};

// `root` stands before /proc and /sys, so that tests can lay out a machine of their own.
MemoryLimits read_memory_limits(const std::string& root = "");

// ErrorKind::does_not_fit if `needed` (budgets of device, on a CPU, and host) cannot be had; names the
// limit, by how much it is missed, and what to change.
Result<void> check_memory(const MemoryLimits&, Bytes needed);

// Empty, or one line saying what is lost because `needed` cannot be locked or registered.
std::string explain_memlock(const MemoryLimits&, Bytes needed);

// "3.50 GiB", "512.00 MiB": sizes in messages.
std::string format_bytes(Bytes);

}  // namespace tidepool
