// What a job must not leave behind when a signal ends it at once: no destructor runs then.
#pragma once

#include <csignal>
#include <string>

#include "base/types.h"

namespace tidepool {

enum class Leftover : u8 { file, directory };

// While it lives, remove_leftovers() removes the path; a directory only if it is empty by then. Create and
// drop it on one thread at a time. Beyond a fixed number of them at once it does nothing: the next job clears
// what stays.
class RemovedAtSuddenEnd {
 public:
  RemovedAtSuddenEnd() = default;
  RemovedAtSuddenEnd(const std::string& path, Leftover);
  RemovedAtSuddenEnd(RemovedAtSuddenEnd&&) noexcept;
  RemovedAtSuddenEnd& operator=(RemovedAtSuddenEnd&&) noexcept;
  ~RemovedAtSuddenEnd();

 private:
  int slot_ = -1;
};

// From before a path is made until it is a RemovedAtSuddenEnd: a signal that comes in between ends the
// process after that, or it would leave the path behind. Short, and without anything that waits for long.
class NoSuddenEnd {
 public:
  NoSuddenEnd();
  ~NoSuddenEnd();
  NoSuddenEnd(const NoSuddenEnd&) = delete;
  NoSuddenEnd& operator=(const NoSuddenEnd&) = delete;

 private:
  sigset_t mask_;
};

// For signal handlers that end the process next: async-signal-safe, in the order: files, then directories.
// Paths that are relative must still mean the same.
void remove_leftovers();

}  // namespace tidepool
