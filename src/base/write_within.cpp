#include "base/write_within.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tidepool {
namespace {

// A pipe takes as much without blocking, once poll() says that it can be written.
constexpr size_t piece_max = 512;

// Opens the file behind `fd` a second time, non-blocking: O_NONBLOCK belongs to an open file, which `fd`
// shares with other processes. A regular file never waits for a reader, and its position is shared. RETURNS:
// -1 if not possible.
int open_non_blocking(int fd) {
  struct stat at {};
  if (::fstat(fd, &at) != 0 || !(S_ISFIFO(at.st_mode) || S_ISCHR(at.st_mode))) return -1;
  char proc_self_fd[] = "/proc/self/fd/0";
  if (fd < 0 || fd > 9) return -1;
  proc_self_fd[sizeof proc_self_fd - 2] = static_cast<char>('0' + fd);
  return ::open(proc_self_fd, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

// RETURNS: 0 once `fd` can be written; else the error.
int wait_for_room(int fd, int patience_ms) {
  struct pollfd at {
    .fd = fd, .events = POLLOUT, .revents = 0
  };
  int ready = 0;
  while ((ready = ::poll(&at, 1, patience_ms)) < 0 && errno == EINTR) {
  }
  return ready > 0 ? 0 : ready == 0 ? ETIMEDOUT : errno;
}

// RETURNS: 0, or the error.
int write_pieces(int fd, bool non_blocking, std::string_view text, int patience_ms) {
  bool may_wait = !non_blocking;  // the next write
  while (!text.empty()) {
    if (may_wait)
      if (const int none = wait_for_room(fd, patience_ms); none != 0) return none;
    const ssize_t n = ::write(fd, text.data(), std::min(text.size(), piece_max));
    if (n < 0 && errno == EAGAIN && may_wait && patience_ms == 0) return ETIMEDOUT;
    if (n < 0 && errno != EINTR && errno != EAGAIN) return errno;
    may_wait = !non_blocking || n < 0;
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

}  // namespace

bool write_within(int fd, std::string_view text, int patience_ms) {
  const int before = errno;
  const int own = open_non_blocking(fd);
  const int failed = write_pieces(own >= 0 ? own : fd, own >= 0, text, patience_ms);
  if (own >= 0) ::close(own);
  errno = failed != 0 ? failed : before;
  return failed == 0;
}

}  // namespace tidepool
