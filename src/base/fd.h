// Fd is a file descriptor that closes itself: a move-only value.
#pragma once

#include <unistd.h>

#include <utility>

namespace tidepool {

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Fd& operator=(Fd&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~Fd() { close(); }

  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // Gives the descriptor away: it is no longer closed here.
  int release() { return std::exchange(fd_, -1); }
  // Returns 0, or -1 with errno set. Closing twice is harmless.
  int close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 ? 0 : ::close(fd);
  }

 private:
  int fd_;
};

}  // namespace tidepool
