#include "io/io_thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include "base/process/start_thread.h"

namespace tidepool {

Result<std::thread> start_io_thread(const char* name, const std::vector<int>& cpus,
                                    std::function<void()> body) {
  Result<std::thread> thread = start_thread(name, std::move(body));
  if (thread && !cpus.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : cpus) CPU_SET(cpu, &set);
    pthread_setaffinity_np(thread->native_handle(), sizeof set, &set);
  }
  return thread;
}

std::chrono::microseconds retry_delay(u32 stalls) {
  if (stalls == 0) return std::chrono::microseconds{0};
  return std::chrono::microseconds{100u << std::min(stalls - 1, 8u)};
}

}  // namespace tidepool
