// What this process may take: cgroup limits (v1 and v2), MemAvailable, RLIMIT_MEMLOCK, RLIMIT_AS.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

struct MemoryLimits {
  std::optional<Bytes> cgroup;         // on the way up, the one with least left; empty: none
  std::string cgroup_file;             // where it stands, for messages
  Bytes cgroup_used{};                 // of it, by this process so far and others; the page cache not counted
  Bytes total{}, available{};          // MemTotal, MemAvailable
  std::optional<Bytes> locked;         // RLIMIT_MEMLOCK; empty: unlimited, or CAP_IPC_LOCK
  std::optional<Bytes> address_space;  // RLIMIT_AS; empty: unlimited
  Bytes address_space_used{};          // of it, by this process so far
};

// `root` stands before /proc and /sys, so that tests can lay out a machine of their own.
MemoryLimits read_memory_limits(const std::string& root = "");

// ErrorKind::does_not_fit if `needed` (budgets of device, on a CPU, and host) and `beside` (what the process
// will still take outside of them) cannot be had in addition to what is in use; names the limit, by how much
// it is missed, and what to change.
Result<void> check_memory(const MemoryLimits&, Bytes needed, Bytes beside = {});

// Empty, or one line saying what is lost because `needed` cannot be locked or registered.
std::string explain_memlock(const MemoryLimits&, Bytes needed);

// "3.50 GiB", "512.00 MiB": sizes in messages.
std::string format_bytes(Bytes);

}  // namespace tidepool
