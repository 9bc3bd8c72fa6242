#include "base/process/out_of_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/result.h"
#include "base/types.h"
#include "base/write_within.h"

namespace tidepool {
namespace {

// jemalloc maps 16 MiB at its start, and crashes if it cannot.
constexpr u64 allocator_mib = 16;

std::atomic<void (*)()> tidy_first{nullptr};
std::atomic<bool> ending{false};

// base/process/limits.h reports the same in more words; this code must not allocate.
u64 mapped_mib() {
  char text[32] = {};
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t got = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  return got > 0 ? std::strtoull(text, nullptr, 10) * static_cast<u64>(sysconf(_SC_PAGESIZE)) / mib : 0;
}

void say_why() {
  struct Limit {
    __rlimit_resource which;
    const char *what, *option;
  };
  char text[400];
  int length = 0;
  for (const Limit& limit : {Limit{RLIMIT_AS, "address space", "-v"}, {RLIMIT_DATA, "data", "-d"}}) {
    rlimit at{};
    if (length != 0 || getrlimit(limit.which, &at) != 0 || at.rlim_cur == RLIM_INFINITY) continue;
    length = std::snprintf(
        text, sizeof text,
        "tidepool: out of memory: this process may take %llu MiB of %s (ulimit %s), has mapped "
        "%llu MiB and needs more: raise it with `ulimit %s unlimited`, or lower memory.host and "
        "memory.device\n",
        static_cast<unsigned long long>(at.rlim_cur / mib), limit.what, limit.option,
        static_cast<unsigned long long>(mapped_mib()), limit.option);
  }
  if (length == 0)
    length =
        std::snprintf(text, sizeof text,
                      "tidepool: out of memory: the kernel gives no more than the %llu MiB that this process "
                      "has mapped: end other programs, lower memory.host and memory.device, or allow more "
                      "with vm.overcommit_memory\n",
                      static_cast<unsigned long long>(mapped_mib()));
  write_within(STDERR_FILENO, {text, static_cast<size_t>(length)});
}

}  // namespace

void end_out_of_memory() {
  while (ending.exchange(true)) ::pause();  // another thread is ending the process
  say_why();
  if (const auto tidy = tidy_first.load()) tidy();
  ::_exit(static_cast<int>(ErrorKind::does_not_fit));
}

void end_when_out_of_memory(void (*tidy)()) {
  tidy_first = tidy;
  std::set_new_handler(end_out_of_memory);
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY &&
      space.rlim_cur / mib < mapped_mib() + allocator_mib)
    end_out_of_memory();
}

}  // namespace tidepool
