// Topology lists the cores this process may use, from hwloc, the affinity mask and the cgroup's CPU quota.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

class Topology {
 public:
  virtual ~Topology() = default;

  // Physical cores with at least one CPU in the process's affinity mask. At least 1.
  virtual u32 cores() const = 0;
  // Cores that the cgroup's CPU quota allows, rounded up. 1 ... cores().
  virtual u32 usable_cores() const = 0;
  virtual u32 numa_nodes() const = 0;
  virtual Bytes cache() const = 0;           // level-3 caches of all cores together; 0 if unknown
  virtual std::string cpu_name() const = 0;  // "AMD EPYC 9R14"; empty if unknown

  // RETURNS: the core that holds an OS CPU number (as from sched_getcpu), or `none`.
  virtual u32 core_of_cpu(u32 cpu) const = 0;
  // Binds the calling thread.
  // RETURNS: false if the system does not permit binding; the thread then runs unbound.
  virtual bool bind_thread_to_core(u32 core) const = 0;
};

Result<std::unique_ptr<Topology>> create_topology();

// Parses the text of a cgroup v2 `cpu.max` file ("max 100000", "150000 100000" -> 2).
// RETURNS: whole CPUs granted; `none` if there is no limit or the text is malformed.
u32 cpus_of_quota(std::string_view cpu_max);

}  // namespace tidepool
