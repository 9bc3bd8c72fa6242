// Removes files and directories of a job that a signal ends at once, when no destructor runs.
#pragma once

#include <csignal>
#include <string>

#include "base/types.h"

namespace tidepool {

enum class Leftover : u8 { file, directory };

// RemovedAtSuddenEnd registers a path: while the object lives, remove_leftovers() removes that path. A
// directory is removed only if it is empty by then. Above a fixed number of registered paths the object is a
// no-op, and the next job clears what stays.
// THREADS: create and destroy objects on one thread at a time.
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

// NoSuddenEnd delays signals from before a path is made until the path is registered as RemovedAtSuddenEnd. A
// signal in between would leave the path behind; now the signal ends the process afterwards. Keep the scope
// short, without long waits.
class NoSuddenEnd {
 public:
  NoSuddenEnd();
  ~NoSuddenEnd();
  NoSuddenEnd(const NoSuddenEnd&) = delete;
  NoSuddenEnd& operator=(const NoSuddenEnd&) = delete;

 private:
  sigset_t mask_;
};

// For signal handlers that end the process next. Removes files first, then directories. Async-signal-safe.
// REQUIRES: relative paths still mean the same (the working directory is unchanged).
void remove_leftovers();

}  // namespace tidepool
