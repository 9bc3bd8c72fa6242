// One job per directory. The lock is flock on a file in it, so that it goes with the process, however it
// dies; pid and boot id in the file are for the message. (A pid alone would not do as a lock: it may be
// reused, or mean another process in another container.)
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "io/sudden_end.h"

namespace tidepool {

// Who held a directory before: from the file that a killed job left.
struct LastHolder {
  long pid = 0;  // 0: nobody, or a job that ended and cleaned up
  bool this_boot = false;
};

class DirectoryLock {
 public:
  struct Options {
    std::string dir;     // exists
    std::string file;    // its name in `dir`
    std::string what;    // "swap directory"
    std::string remedy;  // what else to do than wait or stop the other: "choose another memory.swap_dir"
  };
  // ErrorKind::io: held by a live job (the message has its pid), or not to be had.
  static Result<DirectoryLock> take(const Options&);

  DirectoryLock() = default;  // holds nothing
  DirectoryLock(DirectoryLock&&) noexcept;
  DirectoryLock& operator=(DirectoryLock&&) noexcept;
  ~DirectoryLock() { release(); }

  const LastHolder& last_holder() const { return last_; }
  // Removes the file.
  void release();

 private:
  Result<void> write_holder();

  int fd_ = -1;
  std::string path_;
  LastHolder last_;
  RemovedAtSuddenEnd leftover_;
};

// The pid of the live job that holds such a lock; nothing: none does. For those who only read in `dir`.
std::optional<long> lock_holder(const std::string& dir, const std::string& file);

}  // namespace tidepool
