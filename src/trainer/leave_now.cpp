#include "trainer/leave_now.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace tidepool {

void leave_now(const Error& error) {
  std::fflush(stdout);
  fmt::print(stderr, "\ntidepool: {}\n", error.message);
  std::fflush(stderr);
  ::_exit(exit_code(error));
}

}  // namespace tidepool
