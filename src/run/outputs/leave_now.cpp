#include "run/outputs/leave_now.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/write_within.h"
#include "log/log.h"
#include "report/error_text.h"
#include "report/print_text.h"
#include "report/standard_writers.h"

namespace tidepool {

void leave_now(const Error& error) {
  log_text(LogLevel::error, error.message);
  settle_log(std::chrono::milliseconds(last_words_ms));
  std::fflush(stdout);
  print_text(stderr, "\n{}\n", error_text("tidepool: " + error.message, detect_screen(STDERR_FILENO)));
  finish_writers();
  ::_exit(exit_code(error));
}

}  // namespace tidepool
