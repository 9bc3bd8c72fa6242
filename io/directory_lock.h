// DirectoryLock admits one job per directory. The lock is flock on a file in that directory, so the kernel
// releases the lock when the process ends, however the process dies. Pid and boot id in the file serve the
// error message only. A pid alone cannot be the lock: a pid may be reused, or mean another process in another
// container.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "io/sudden_end.h"

namespace tidepool {

// LastHolder names the job that held the directory before, from the file that a killed job left behind.
struct LastHolder {
  long pid = 0;  // 0: nobody, or a job that ended and cleaned up
  bool this_boot = false;
};

class DirectoryLock {
 public:
  struct Options {
    std::string dir;     // exists
    std::string file;    // its name in `dir`
    std::string what;    // for messages: "swap directory"
    std::string remedy;  // alternative to waiting or stopping the other job: "choose another memory.swap_dir"
  };
  // Errors: ErrorKind::io if a live job holds the lock (the message has its pid), or if the lock cannot be
  // taken.
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

// Lets a reader of `dir` find out whether a job is writing there.
// RETURNS: the pid of the live job that holds the lock, or nullopt if no job holds it.
std::optional<long> lock_holder(const std::string& dir, const std::string& file);

}  // namespace tidepool
