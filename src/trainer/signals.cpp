#include "trainer/signals.h"

#include <csignal>
#include <unistd.h>

namespace tidepool {
namespace {

volatile std::sig_atomic_t stop = 0;
struct sigaction old_int, old_term;

void on_signal(int number) {
  if (stop != 0) {
    constexpr char message[] = "\ntidepool: stopped at once; the last checkpoint is intact\n";
    [[maybe_unused]] const auto n = write(2, message, sizeof message - 1);
    _exit(128 + number);
  }
  stop = 1;
  constexpr char message[] = "\ntidepool: finishing the step, then saving; again to stop at once\n";
  [[maybe_unused]] const auto n = write(2, message, sizeof message - 1);
}

}  // namespace

StopSignals::StopSignals() {
  stop = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &old_int);
  sigaction(SIGTERM, &action, &old_term);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &old_int, nullptr);
  sigaction(SIGTERM, &old_term, nullptr);
}

bool StopSignals::stop_requested() { return stop != 0; }

}  // namespace tidepool
