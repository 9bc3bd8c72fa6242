// MemoryLimits reads how much memory this process may take: cgroup limits (v1 and v2), MemAvailable,
// RLIMIT_MEMLOCK, RLIMIT_AS.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

struct MemoryLimits {
  std::optional<Bytes> cgroup;  // the ancestor cgroup with the least memory left; empty: no limit
  std::string cgroup_file;      // file that states the limit, for messages
  Bytes cgroup_used{};          // used so far by this process and others in that cgroup, without page cache
  Bytes total{}, available{};   // MemTotal, MemAvailable
  std::optional<Bytes> locked;  // RLIMIT_MEMLOCK; empty: unlimited, or CAP_IPC_LOCK
  std::optional<Bytes> address_space;  // RLIMIT_AS; empty: unlimited
  Bytes address_space_used{};          // used so far by this process
};

// `root` is a prefix of /proc and /sys, so that tests can lay out a machine of their own.
MemoryLimits read_memory_limits(const std::string& root = "");

// Checks that `needed` plus `beside` can be taken in addition to the memory in use. `needed` is the budget of
// the host and, on a CPU, of devices; `beside` is memory that the process will still take outside the
// budgets.
// Errors: ErrorKind::does_not_fit names the limit, by how much it is missed, and what to change.
Result<void> check_memory(const MemoryLimits&, Bytes needed, Bytes beside = {});

// RETURNS: one line saying what is lost if `needed` cannot be locked or registered; empty if nothing is lost.
std::string explain_memlock(const MemoryLimits&, Bytes needed);

// Formats sizes for messages: "3.50 GiB", "512.00 MiB".
std::string format_bytes(Bytes);

}  // namespace tidepool
