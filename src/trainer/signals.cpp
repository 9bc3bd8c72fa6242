#include "trainer/signals.h"

#include <csignal>
#include <cstring>
#include <unistd.h>

namespace tidepool {
namespace {

volatile std::sig_atomic_t stop = 0;  // the signal's number
StopWords words;
struct sigaction old_int, old_term;

void say(const char* text) { [[maybe_unused]] const auto n = write(2, text, std::strlen(text)); }

void on_signal(int number) {
  if (stop != 0) {
    say(words.second);
    _exit(128 + number);
  }
  stop = number;
  say(words.first);
}

}  // namespace

StopSignals::StopSignals(const StopWords& said) {
  stop = 0;
  words = said;
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
int StopSignals::signal_number() { return stop; }

}  // namespace tidepool
