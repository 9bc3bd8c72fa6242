#include "machine/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <vector>

namespace tidepool {
namespace {

u32 quota_of_file(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? cpus_of_quota(line) : none;
}

// RETURNS: the tightest `cpu.max` from this process's cgroup (v2) up to the root.
u32 cgroup_quota() {
  std::ifstream self("/proc/self/cgroup");
  u32 least = quota_of_file("/sys/fs/cgroup/cpu.max");
  for (std::string line; std::getline(self, line);) {
    if (!line.starts_with("0::")) continue;
    for (std::string path = line.substr(3); path.size() > 1; path.resize(path.rfind('/')))
      least = std::min(least, quota_of_file("/sys/fs/cgroup" + path + "/cpu.max"));
  }
  return least;
}

class HwlocTopology final : public Topology {
 public:
  explicit HwlocTopology(hwloc_topology_t topology) : topology_(topology) {
    read_cores();
    usable_cores_ = std::max(1u, std::min(cores(), cgroup_quota()));
    numa_nodes_ = std::max(1, hwloc_get_nbobjs_by_type(topology_, HWLOC_OBJ_NUMANODE));
    read_caches();
  }
  ~HwlocTopology() override {
    for (hwloc_bitmap_t core : cores_) hwloc_bitmap_free(core);
    hwloc_topology_destroy(topology_);
  }
  HwlocTopology(const HwlocTopology&) = delete;
  HwlocTopology& operator=(const HwlocTopology&) = delete;

  u32 cores() const override { return static_cast<u32>(cores_.size()); }
  u32 usable_cores() const override { return usable_cores_; }
  u32 numa_nodes() const override { return numa_nodes_; }
  Bytes cache() const override { return cache_; }

  std::string cpu_name() const override {
    const hwloc_obj_t package = hwloc_get_obj_by_type(topology_, HWLOC_OBJ_PACKAGE, 0);
    const char* name = package != nullptr ? hwloc_obj_get_info_by_name(package, "CPUModel") : nullptr;
    return name != nullptr ? name : "";
  }

  u32 core_of_cpu(u32 cpu) const override { return cpu < core_of_cpu_.size() ? core_of_cpu_[cpu] : none; }
  bool bind_thread_to_core(u32 core) const override {
    return core < cores() && hwloc_set_cpubind(topology_, cores_[core], HWLOC_CPUBIND_THREAD) == 0;
  }

 private:
  void read_cores() {
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    // The affinity mask of the process (taskset, cpuset), which hwloc's topology does not include.
    if (hwloc_get_cpubind(topology_, allowed, HWLOC_CPUBIND_PROCESS) != 0)
      hwloc_bitmap_copy(allowed, hwloc_topology_get_allowed_cpuset(topology_));
    hwloc_obj_t core = nullptr;
    while ((core = hwloc_get_next_obj_by_type(topology_, HWLOC_OBJ_CORE, core)) != nullptr)
      if (hwloc_bitmap_intersects(core->cpuset, allowed)) add_core(core->cpuset, allowed);
    // Some virtual machines and containers report CPUs but no cores.
    if (cores_.empty()) add_cpus_as_cores(allowed);
    hwloc_bitmap_free(allowed);
  }
  void read_caches() {
    hwloc_obj_t cache = nullptr;
    while ((cache = hwloc_get_next_obj_by_type(topology_, HWLOC_OBJ_L3CACHE, cache)) != nullptr)
      cache_ += Bytes{cache->attr->cache.size};
  }
  void add_cpus_as_cores(hwloc_const_bitmap_t allowed) {
    hwloc_obj_t cpu = nullptr;
    while ((cpu = hwloc_get_next_obj_by_type(topology_, HWLOC_OBJ_PU, cpu)) != nullptr)
      if (hwloc_bitmap_intersects(cpu->cpuset, allowed)) add_core(cpu->cpuset, allowed);
    if (cores_.empty()) cores_.push_back(hwloc_bitmap_dup(allowed));
  }
  void add_core(hwloc_const_bitmap_t cpus, hwloc_const_bitmap_t allowed) {
    hwloc_bitmap_t core = hwloc_bitmap_dup(cpus);
    hwloc_bitmap_and(core, core, allowed);
    for (int cpu = hwloc_bitmap_first(core); cpu >= 0; cpu = hwloc_bitmap_next(core, cpu)) {
      if (core_of_cpu_.size() <= static_cast<u32>(cpu)) core_of_cpu_.resize(cpu + 1, none);
      core_of_cpu_[cpu] = cores();
    }
    cores_.push_back(core);
  }

  hwloc_topology_t topology_;
  std::vector<hwloc_bitmap_t> cores_;
  std::vector<u32> core_of_cpu_;
  u32 usable_cores_ = 1;
  u32 numa_nodes_ = 1;
  Bytes cache_{};
};

}  // namespace

u32 cpus_of_quota(std::string_view cpu_max) {
  const char* end = cpu_max.data() + cpu_max.size();
  u64 quota = 0, period = 0;
  auto [after_quota, quota_error] = std::from_chars(cpu_max.data(), end, quota);
  if (quota_error != std::errc{} || after_quota == end || *after_quota != ' ') return none;
  auto [after_period, period_error] = std::from_chars(after_quota + 1, end, period);
  if (period_error != std::errc{} || period == 0 || quota == 0) return none;
  return static_cast<u32>(std::min<u64>(div_up(quota, period), none));
}

Result<std::unique_ptr<Topology>> create_topology() {
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0)
    return Error{ErrorKind::internal, "hwloc cannot start: out of memory; free some and try again"};
  // Only cores, CPUs, NUMA nodes and the last caches are needed; discovering devices takes a hundred times
  // longer.
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_cache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(topology) != 0) {
    hwloc_topology_destroy(topology);
    return Error{ErrorKind::io,
                 "hwloc cannot read this machine's topology; check that /sys and /proc are "
                 "mounted, or set machine.threads"};
  }
  return std::unique_ptr<Topology>(std::make_unique<HwlocTopology>(topology));
}

}  // namespace tidepool
