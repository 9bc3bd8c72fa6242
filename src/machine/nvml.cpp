#include "machine/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tidepool {
namespace {

// Values from the library's own header.
constexpr int success = 0, insufficient_size = 7, clock_of_multiprocessors = 1, sensor_of_chip = 0;
struct ProcessInfo {
  unsigned pid;
  unsigned long long memory_bytes;
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long memory_unknown = ~0ULL;

std::string name_of_process(u32 pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

// The kernel's fixed number of the first pid namespace (PROC_PID_INIT_INO); all others have higher numbers.
constexpr const char* pid_namespace_of_host = "pid:[4026531836]";

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Pids pids_in(const std::string& pid_namespace) {
  return pid_namespace == pid_namespace_of_host ? Pids::ours : Pids::of_the_host;
}

Pids pids_of_driver() {
  std::error_code unknown;
  return pids_in(std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string());
}

struct Nvml::Functions {
  void* library = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*device_by_pci)(const char*, void**) = nullptr;
  int (*processes)(void*, unsigned*, ProcessInfo*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*temperature)(void*, int, unsigned*) = nullptr;

  ~Functions() {
    if (library != nullptr) ::dlclose(library);
  }
};

std::unique_ptr<Nvml> Nvml::load(const std::string& library) {
  auto f = std::make_unique<Functions>();
  f->library = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (f->library == nullptr) return nullptr;
  const bool complete = find(f->library, "nvmlInit_v2", f->init) &&
                        find(f->library, "nvmlShutdown", f->shutdown) &&
                        find(f->library, "nvmlDeviceGetHandleByPciBusId_v2", f->device_by_pci) &&
                        find(f->library, "nvmlDeviceGetComputeRunningProcesses_v3", f->processes) &&
                        find(f->library, "nvmlDeviceGetPowerUsage", f->power) &&
                        find(f->library, "nvmlDeviceGetClockInfo", f->clock) &&
                        find(f->library, "nvmlDeviceGetTemperature", f->temperature);
  if (!complete || f->init() != success) return nullptr;
  return std::unique_ptr<Nvml>(new Nvml(std::move(f)));
}

Nvml::Nvml(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}
Nvml::~Nvml() { functions_->shutdown(); }

void* Nvml::device(const std::string& pci) const {
  void* device = nullptr;
  return functions_->device_by_pci(pci.c_str(), &device) == success ? device : nullptr;
}

std::vector<GpuProcess> Nvml::processes(const std::string& pci, Pids pids) const {
  void* const gpu = device(pci);
  std::vector<ProcessInfo> found;
  int answer = insufficient_size;
  for (unsigned count = 32; gpu != nullptr && answer == insufficient_size; count *= 2) {
    found.resize(count);
    answer = functions_->processes(gpu, &count, found.data());
    if (answer == success) found.resize(count);
  }
  std::vector<GpuProcess> out;
  if (answer != success) return out;
  for (const ProcessInfo& p : found)
    if (pids == Pids::of_the_host || p.pid != static_cast<unsigned>(::getpid()))
      out.push_back({.pid = p.pid,
                     .memory = Bytes{p.memory_bytes == memory_unknown ? 0 : p.memory_bytes},
                     .name = pids == Pids::ours ? name_of_process(p.pid) : std::string()});
  return out;
}

double Nvml::power_watts(const std::string& pci) const {
  unsigned milliwatts = 0;
  void* const gpu = device(pci);
  return gpu != nullptr && functions_->power(gpu, &milliwatts) == success ? milliwatts / 1000.0 : 0;
}

u32 Nvml::clock_mhz(const std::string& pci) const {
  unsigned mhz = 0;
  void* const gpu = device(pci);
  return gpu != nullptr && functions_->clock(gpu, clock_of_multiprocessors, &mhz) == success ? mhz : 0;
}

u32 Nvml::celsius(const std::string& pci) const {
  unsigned celsius = 0;
  void* const gpu = device(pci);
  return gpu != nullptr && functions_->temperature(gpu, sensor_of_chip, &celsius) == success ? celsius : 0;
}

}  // namespace tidepool
