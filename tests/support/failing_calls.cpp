// Library for LD_PRELOAD: the n-th call that changes something under a directory fails, once; and flushes of
// some files take long.
//
//   FAILING_UNDER   the directory; absolute
//   FAILING_CALL    n, from 1; 0: none
//   FAILING_ERRNO   error number of the failure
//   FAILING_LOG     a file that gets one line "call 12: write PATH" for the failed call, and at the end
//                   "calls 345"
//   SLOW_FILES      part of a path, such as "optimizer": fsync and fdatasync of such files first wait
//   SLOW_SECONDS    so long
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<unsigned> calls{0};

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Uses the real functions, so that the line is not counted itself.
void log_line(const char* text) {
  static const auto really_open = real<int(const char*, int, ...)>("open");
  static const auto really_write = real<ssize_t(int, const void*, size_t)>("write");
  const int fd = really_open(setting("FAILING_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return;
  [[maybe_unused]] const auto n = really_write(fd, text, std::strlen(text));
  ::close(fd);
}

bool is_under(const char* path) {
  static const char* const under = setting("FAILING_UNDER");
  static const size_t length = std::strlen(under);
  return length > 0 && std::strncmp(path, under, length) == 0 && (path[length] == 0 || path[length] == '/');
}

// Counts the call.
// RETURNS: true if this call fails; errno is then set.
bool fails(const char* call, const char* path) {
  if (!is_under(path)) return false;
  static const unsigned the_one = static_cast<unsigned>(std::atoi(setting("FAILING_CALL")));
  const unsigned number = ++calls;
  if (number != the_one) return false;
  char line[PATH_MAX + 100];
  std::snprintf(line, sizeof line, "call %u: %s %s\n", number, call, path);
  log_line(line);
  errno = std::atoi(setting("FAILING_ERRNO"));
  return true;
}

bool fails(const char* call, int fd) {
  char link[64], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  if (length < 0) return false;
  path[length] = 0;
  return fails(call, path);
}

void wait_if_slow(int fd) {
  static const char* const files = setting("SLOW_FILES");
  if (files[0] == 0) return;
  char link[64], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  if (length < 0) return;
  path[length] = 0;
  if (std::strstr(path, files) != nullptr) ::sleep(static_cast<unsigned>(std::atoi(setting("SLOW_SECONDS"))));
}

struct AtExit {
  ~AtExit() {
    char line[64];
    std::snprintf(line, sizeof line, "calls %u\n", calls.load());
    log_line(line);
  }
} at_exit;

bool takes_mode(int flags) { return (flags & (O_CREAT | O_TMPFILE)) != 0; }

}  // namespace

#define MODE_OF(flags)           \
  mode_t mode = 0;               \
  if (takes_mode(flags)) {       \
    va_list rest;                \
    va_start(rest, flags);       \
    mode = va_arg(rest, mode_t); \
    va_end(rest);                \
  }

extern "C" {

int open(const char* path, int flags, ...) {
  MODE_OF(flags)
  if (fails("open", path)) return -1;
  return real<int(const char*, int, ...)>("open")(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  MODE_OF(flags)
  if (fails("open", path)) return -1;
  return real<int(const char*, int, ...)>("open64")(path, flags, mode);
}
ssize_t write(int fd, const void* bytes, size_t count) {
  if (fails("write", fd)) return -1;
  return real<ssize_t(int, const void*, size_t)>("write")(fd, bytes, count);
}
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t at) {
  if (fails("pwrite", fd)) return -1;
  return real<ssize_t(int, const void*, size_t, off_t)>("pwrite")(fd, bytes, count, at);
}
ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t at) {
  if (fails("pwrite", fd)) return -1;
  return real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64")(fd, bytes, count, at);
}
int fsync(int fd) {
  wait_if_slow(fd);
  if (fails("fsync", fd)) return -1;
  return real<int(int)>("fsync")(fd);
}
int fdatasync(int fd) {
  wait_if_slow(fd);
  if (fails("fdatasync", fd)) return -1;
  return real<int(int)>("fdatasync")(fd);
}
int rename(const char* from, const char* to) {
  if (fails("rename", to)) return -1;
  return real<int(const char*, const char*)>("rename")(from, to);
}
int mkdir(const char* path, mode_t mode) {
  if (fails("mkdir", path)) return -1;
  return real<int(const char*, mode_t)>("mkdir")(path, mode);
}
int fallocate(int fd, int mode, off_t at, off_t bytes) {
  if (fails("fallocate", fd)) return -1;
  return real<int(int, int, off_t, off_t)>("fallocate")(fd, mode, at, bytes);
}
int fallocate64(int fd, int mode, off64_t at, off64_t bytes) {
  if (fails("fallocate", fd)) return -1;
  return real<int(int, int, off64_t, off64_t)>("fallocate64")(fd, mode, at, bytes);
}
int ftruncate(int fd, off_t bytes) {
  if (fails("ftruncate", fd)) return -1;
  return real<int(int, off_t)>("ftruncate")(fd, bytes);
}
int ftruncate64(int fd, off64_t bytes) {
  if (fails("ftruncate", fd)) return -1;
  return real<int(int, off64_t)>("ftruncate64")(fd, bytes);
}

}  // extern "C"
