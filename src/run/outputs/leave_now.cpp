#include "run/outputs/leave_now.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "report/error_text.h"
#include "report/print_text.h"
#include "report/standard_writers.h"

namespace tidepool {

void leave_now(const Error& error) {
  std::fflush(stdout);
  print_text(stderr, "\n{}\n", error_text("tidepool: " + error.message, detect_screen(STDERR_FILENO)));
  finish_writers();
  ::_exit(exit_code(error));
}

}  // namespace tidepool
