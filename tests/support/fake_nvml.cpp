// Stand-in for the driver's management library, as nvml.cpp loads it, with one GPU at 0000:01:00.0. Each
// reading of power is 10 W higher than the last, starting at 300 W; each clock is 15 MHz lower than the last,
// starting at 1980 MHz. Its processes have the pid of the caller and pid 1.
#include <unistd.h>

#include <cstring>

static int the_gpu, inits;
static unsigned power = 290000, clock_mhz = 1995;

struct ProcessInfo {
  unsigned pid;
  unsigned long long memory_bytes;
  unsigned gpu_instance, compute_instance;
};

extern "C" {

int nvmlInit_v2() { return inits++, power = 290000, clock_mhz = 1995, 0; }
int nvmlShutdown() { return inits--, 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, void** device) {
  *device = &the_gpu;
  return std::strcmp(pci, "0000:01:00.0") == 0 ? 0 : 6;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, ProcessInfo* processes) {
  *count = 2;
  processes[0] = {static_cast<unsigned>(::getpid()), 1ULL << 30, 0, 0};
  processes[1] = {1, ~0ULL, 0, 0};
  return 0;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) { return *milliwatts = power += 10000, 0; }
int nvmlDeviceGetClockInfo(void*, int which, unsigned* mhz) {
  return *mhz = clock_mhz -= 15, which == 1 ? 0 : 2;
}
int nvmlDeviceGetTemperature(void*, int sensor, unsigned* celsius) {
  return *celsius = 61, sensor == 0 ? 0 : 2;
}

}  // extern "C"
