// Examines cores, accelerators and memory for the doctor.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "cli/doctor.h"
#include "executor/built_without_cuda.h"
#include "executor/devices.h"
#include "io/memory_limits.h"
#include "io/numa.h"
#include "machine/topology.h"

namespace tidepool {

namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Finding simd() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {.what = "vector units", .found = "AVX-512"};
  if (__builtin_cpu_supports("avx2")) return {.what = "vector units", .found = "AVX2"};
  return {Health::warn, "vector units",
          "no AVX2: computing is several times slower than on any CPU since 2015",
          "train on a newer machine; in a virtual machine, pass the host's CPU through"};
#else
  return {.what = "vector units", .found = "chosen at run time"};
#endif
}

constexpr const char* train_on_cores = "machine.executor=cpu";

// Checks the GPUs that the config asks for. A failure is Health::fail, because it ends every run.
Finding gpus_asked_for(const DoctorArguments& arguments, const GpuBackend* gpus) {
  Finding out{Health::fail, "GPU", "", "", ErrorKind::usage};
  if (gpus != nullptr) {
    out.found = gpus->why_none(arguments.gpus);
    if (out.found.empty() && arguments.gpus.size() > 1 && arguments.exchange)
      if (const Result<std::string> library = gpus->exchange(); !library) out.found = library.error().message;
    if (!out.found.empty()) {
      out.fix = fmt::format("or train with {}", train_on_cores);
      return out;
    }
    out.found = gpus->why_not_in(arguments.precision, arguments.gpus);
    if (!out.found.empty()) return out;
    return {.what = out.what, .found = arguments.executor + " can be used"};
  }
  out.found = fmt::format("machine.executor={}, and {}", arguments.executor, built_without_cuda);
  out.fix = fmt::format("{}, or train with {}", how_to_build_with_cuda, train_on_cores);
  return out;
}

Finding no_backend() {
  const std::string driver = first_line("/proc/driver/nvidia/version");
  if (driver.empty()) return {.what = "GPU", .found = "no GPU driver: training runs on the CPU"};
  return {.what = "GPU",
          .found = fmt::format("NVIDIA driver found, but {}: training runs on the CPU; to train on a GPU, {}",
                               built_without_cuda, how_to_build_with_cuda)};
}

// RETURNS: "NVIDIA H200, 139.8 GiB, node 1".
std::string describe(const GpuFacts& gpu) {
  const std::vector<u32> nodes = numa_nodes_of({gpu.pci});
  return fmt::format("{}, {}{}{}", gpu.name, format_bytes(gpu.memory),
                     nodes.size() == 1 ? fmt::format(", node {}", nodes.front()) : "",
                     gpu.held_by.empty() ? "" : ";" + gpu.held_by);
}

// Says which library computes attention on the first GPU. Other GPUs are mostly alike.
Finding attention_of(const GpuBackend& gpus) {
  const Result<std::string> library = gpus.attention(0);
  if (library) return {.what = "attention", .found = *library};
  return {Health::warn, "attention", "our own kernels, which are slower on this GPU than cuDNN's",
          library.error().message};
}

Finding huge_pages() {
  const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
  const std::string modes = first_line(path);  // "always [madvise] never"
  const std::string what = "huge pages";
  if (modes.find("[always]") != std::string::npos) return {.what = what, .found = "transparent, always"};
  if (modes.find("[madvise]") != std::string::npos) return {.what = what, .found = "transparent, on request"};
  return {Health::warn, what, "off: address translation costs updates and copies some speed",
          fmt::format("echo madvise | sudo tee {}", path)};
}

Finding memory_size(const MemoryLimits& limits, const Wanted& wanted) {
  const Result<void> fits = check_memory(limits, wanted.memory, wanted.beside);
  if (!fits) return {Health::fail, "memory", fits.error().message, "", ErrorKind::does_not_fit};
  std::string found =
      fmt::format("{} available of {}", format_bytes(limits.available), format_bytes(limits.total));
  if (wanted.memory.value != 0)
    found += fmt::format("; this run takes {}", format_bytes(wanted.memory + wanted.beside));
  return {.what = "memory", .found = found};
}

Finding cgroup(const MemoryLimits& limits) {
  if (!limits.cgroup) return {.what = "cgroup limit", .found = "none"};
  const std::string found = fmt::format("{} ({})", format_bytes(*limits.cgroup), limits.cgroup_file);
  if (*limits.cgroup >= limits.total) return {.what = "cgroup limit", .found = found};
  return {
      Health::warn, "cgroup limit", found,
      "keep memory.device + memory.host well below it, or raise it (docker --memory, systemd MemoryMax=)"};
}

Finding memlock(const MemoryLimits& limits, Bytes needed) {
  const std::string what = "locked memory";
  if (!limits.locked) return {.what = what, .found = "unlimited"};
  const std::string lost = explain_memlock(limits, needed.value != 0 ? needed : limits.available);
  const std::string found = fmt::format("limited to {}", format_bytes(*limits.locked));
  if (lost.empty()) return {.what = what, .found = found};
  return {Health::warn, what, fmt::format("{}: {}", found, lost),
          "`ulimit -l unlimited`, or a line `* - memlock unlimited` in /etc/security/limits.conf"};
}

Finding overcommit() {
  if (first_line("/proc/sys/vm/overcommit_memory") != "2")
    return {.what = "overcommit", .found = "permitted"};
  return {Health::warn, "overcommit",
          "off (vm.overcommit_memory = 2): arenas need free commit space, not only free memory",
          "sudo sysctl vm.overcommit_memory=0"};
}

}  // namespace

std::vector<Finding> examine_gpus(const DoctorArguments& arguments, const GpuBackend* backend) {
  std::vector<Finding> out;
  if (!arguments.gpus.empty()) out.push_back(gpus_asked_for(arguments, backend));
  if (backend == nullptr) {
    if (out.empty()) out.push_back(no_backend());
    return out;
  }
  const std::vector<GpuFacts> gpus = backend->gpus();
  if (gpus.empty() && out.empty()) out.push_back({.what = "GPU", .found = backend->why_none({})});
  for (u32 i = 0; i < gpus.size(); ++i)
    out.push_back({.what = fmt::format("cuda:{}", i), .found = describe(gpus[i])});
  if (!gpus.empty()) out.push_back(attention_of(*backend));
  if (gpus.size() < 2) return out;
  if (const Result<std::string> exchange = backend->exchange()) {
    out.push_back({.what = "between GPUs", .found = *exchange});
  } else {
    out.push_back({Health::warn, "between GPUs", "no exchange: several GPUs need machine.parallel=layers",
                   exchange.error().message});
  }
  return out;
}

std::vector<Finding> examine_cores(const DoctorArguments& arguments) {
  std::vector<Finding> out;
  const auto topology = create_topology();
  if (!topology) {
    out.push_back({Health::warn, "cores", topology.error().message, "threads run unbound"});
  } else {
    const u32 cores = (*topology)->cores(), usable = (*topology)->usable_cores();
    if (usable < cores) {
      out.push_back({Health::warn, "cores",
                     fmt::format("{}, but the cgroup's CPU quota allows only {}", cores, usable),
                     "raise the quota (docker --cpus, systemd CPUQuota=)"});
    } else {
      out.push_back({.what = "cores", .found = fmt::format("{}", cores)});
    }
    const u32 nodes = (*topology)->numa_nodes();
    out.push_back({.what = "NUMA",
                   .found = nodes > 1 ? fmt::format("{} nodes; memory and threads are bound", nodes)
                                      : std::string("one node")});
  }
  out.push_back(simd());
  std::ranges::move(examine_gpus(arguments, gpu_backend()), std::back_inserter(out));
  return out;
}

std::vector<Finding> examine_memory(const Wanted& wanted) {
  const MemoryLimits limits = read_memory_limits();
  return {memory_size(limits, wanted), cgroup(limits), memlock(limits, wanted.memory), huge_pages(),
          overcommit()};
}

}  // namespace tidepool
