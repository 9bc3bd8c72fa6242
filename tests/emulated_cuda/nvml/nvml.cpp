// libnvidia-ml.so.1 for the emulation, of a host that runs this program in a container: users of a GPU have
// pids that mean nothing here, and this program is among them once it has a context.
#include <cstdio>

#include "control.h"

namespace {

constexpr int success = 0, insufficient_size = 7, not_found = 6;
constexpr unsigned of_another = 4242, of_ourselves = 4343;
constexpr int devices_max = 16;
int devices[devices_max];

struct ProcessInfo {
  unsigned pid;
  unsigned long long memory_bytes;
  unsigned gpu_instance, compute_instance;
};

}  // namespace

extern "C" {

int nvmlInit_v2() { return success; }
int nvmlShutdown() { return success; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, void** device) {
  unsigned bus = 0;
  if (std::sscanf(pci, "0000:%2x:00.0", &bus) != 1 || bus < 1 || bus > devices_max) return not_found;
  *device = &devices[bus - 1];
  return success;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, ProcessInfo* processes) {
  const bool ourselves = emulated_cuda::has_context(static_cast<int>(static_cast<int*>(device) - devices));
  if (*count < 2) return insufficient_size;
  *count = ourselves ? 2 : 1;
  processes[0] = {of_another, 3ULL << 30, 0, 0};
  processes[1] = {of_ourselves, 1ULL << 30, 0, 0};
  return success;
}
int nvmlDeviceGetPowerUsage(void*, unsigned*) { return not_found; }
int nvmlDeviceGetClockInfo(void*, int, unsigned*) { return not_found; }
int nvmlDeviceGetTemperature(void*, int, unsigned*) { return not_found; }

}  // extern "C"
