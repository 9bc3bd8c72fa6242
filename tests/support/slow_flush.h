// SlowFlush makes flushes of some files slow in processes that start while it lives.
#pragma once

#include <cstdlib>

#include "tests/support/places.h"

namespace tidepool::test {

class SlowFlush {
 public:
  // `files`: part of their path.
  SlowFlush(const char* files, const char* seconds) {
    ::setenv("LD_PRELOAD", failing_calls_file().c_str(), 1);
    ::setenv("SLOW_FILES", files, 1);
    ::setenv("SLOW_SECONDS", seconds, 1);
  }
  ~SlowFlush() {
    for (const char* name : {"LD_PRELOAD", "SLOW_FILES", "SLOW_SECONDS"}) ::unsetenv(name);
  }
  SlowFlush(const SlowFlush&) = delete;
};

}  // namespace tidepool::test
