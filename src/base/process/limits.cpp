#include "base/process/limits.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/errno_text.h"
#include "base/process/cgroup.h"

namespace tidepool {
namespace {

namespace fs = std::filesystem;

// Threads beside the workers (one per core): the disk's 8, 6 that read weights, lanes, checksums and the main
// thread.
constexpr u32 threads_beside_workers = 22;

std::string mib_text(Bytes bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes.value) / mib);
}

// Threads of a process. The link count of /proc/PID/task is one per thread and two for the folder itself.
u64 threads_of(const fs::path& process) {
  struct stat at {};
  return ::stat((process / "task").c_str(), &at) == 0 && at.st_nlink > 2 ? at.st_nlink - 2 : 0;
}

// RLIMIT_NPROC counts the threads of all processes of a user.
u64 threads_of_user() {
  u64 count = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    struct stat at {};
    if (std::isdigit(static_cast<unsigned char>(entry.path().filename().c_str()[0])) == 0) continue;
    if (::stat(entry.path().c_str(), &at) == 0 && at.st_uid == ::getuid()) count += threads_of(entry.path());
  }
  return count;
}

std::string why_cgroup_is_full() {
  for (const CgroupFolder& folder : cgroup_folders("pids")) {
    const auto most = number_in_file(folder.path + "/pids.max");
    const auto now = number_in_file(folder.path + "/pids.current");
    if (most && now && *now >= *most)
      return fmt::format(
          "{}/pids.max allows {} threads and {} are in use: raise it (docker --pids-limit, "
          "systemd TasksMax=)",
          folder.path, *most, *now);
  }
  return "";
}

std::string why_user_is_full() {
  const std::optional<Bytes> most = soft_limit_bytes(RLIMIT_NPROC);
  const u64 now = most ? threads_of_user() : 0;
  if (!most || now < most->value) return "";
  return fmt::format(
      "this user may have {} processes and threads (ulimit -u) and has {}: raise it with "
      "`ulimit -u`, or in /etc/security/limits.conf",
      most->value, now);
}

// Names the limit that leaves less than `needed`; empty if no limit does.
std::string why_space_is_full(Bytes needed) {
  struct Limit {
    __rlimit_resource which;
    const char *what, *option;
  };
  for (const Limit& limit : {Limit{RLIMIT_AS, "address space", "-v"}, {RLIMIT_DATA, "data", "-d"}}) {
    const std::optional<Bytes> most = soft_limit_bytes(limit.which);
    const Bytes used = address_space_used();
    if (most && *most < used + needed)
      return fmt::format(
          "this process may take {} of {} (ulimit {}) and has mapped {}: raise it with `ulimit {} "
          "unlimited`",
          mib_text(*most), limit.what, limit.option, mib_text(used), limit.option);
  }
  return "";
}

// jemalloc crashes in a thread if it cannot map an arena for the thread.
constexpr Bytes allocator_bytes{16 * mib};

Bytes thread_bytes() {
  pthread_attr_t attributes;
  size_t stack = 0;
  if (pthread_getattr_default_np(&attributes) != 0) return allocator_bytes;
  pthread_attr_getstacksize(&attributes, &stack);
  pthread_attr_destroy(&attributes);
  return Bytes{stack} + allocator_bytes;
}

std::string why_no_thread() {
  for (const std::string& why : {why_cgroup_is_full(), why_user_is_full(), why_space_is_full(thread_bytes())})
    if (!why.empty()) return why;
  return "raise the limit on processes (ulimit -u, pids.max of the cgroup, kernel.threads-max), or end other "
         "programs";
}

// RETURNS: a size in /proc/self/status; 0 if it is not there.
Bytes status_bytes(std::string_view key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return Bytes{std::strtoull(line.c_str() + key.size(), nullptr, 10) * kib};
  return {};
}

}  // namespace

std::optional<Bytes> soft_limit_bytes(__rlimit_resource which) {
  rlimit limit{};
  if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return Bytes{limit.rlim_cur};
}

Bytes address_space_used() {
  const u64 pages = number_in_file("/proc/self/statm").value_or(0);
  return Bytes{pages * static_cast<u64>(sysconf(_SC_PAGESIZE))};
}

bool has_room_for_thread() { return why_space_is_full(thread_bytes()).empty(); }

// VmHWM, not getrusage: ru_maxrss starts with the peak of the process that started this one.
Bytes process_peak() { return status_bytes("VmHWM:"); }
Bytes process_resident() { return status_bytes("VmRSS:"); }

Error no_thread(std::string_view name, int error_number) {
  return {
      ErrorKind::does_not_fit,
      fmt::format("cannot start the thread {}: {}: {}; this process has {} threads, and a run takes one per "
                  "core (machine.threads) and up to {} more",
                  name, errno_text(error_number), why_no_thread(), threads_of("/proc/self"),
                  threads_beside_workers)};
}

Error no_memory(std::string_view what, Bytes bytes, int error_number, std::string_view advice) {
  const std::string why = why_space_is_full(bytes);
  return {ErrorKind::does_not_fit,
          fmt::format("cannot take {} for {}: {}: {}{}{}", mib_text(bytes), what, errno_text(error_number),
                      why, why.empty() ? "" : ", or ", advice)};
}

}  // namespace tidepool
