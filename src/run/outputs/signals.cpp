#include "run/outputs/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "base/process/signal_stack.h"
#include "io/sudden_end.h"
#include "report/screen.h"

namespace tidepool {
namespace {

constexpr std::array<int, 4> numbers = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

volatile std::sig_atomic_t stop = 0;  // the signal's number
StopWords words;                      // first == nullptr: there is no clean stop
std::array<struct sigaction, numbers.size()> before;

volatile std::sig_atomic_t over_view = 0;  // 1: the cursor is at the start of a live view

void put(const char* text) { [[maybe_unused]] const auto n = write(2, text, std::strlen(text)); }
void say(const char* text) {
  if (over_view != 0) put(erase_lines.data());
  put(over_view != 0 && text[0] == '\n' ? text + 1 : text);
}

// Redirects output pipes without a reader to /dev/null; otherwise every later write would fail.
void silence_broken_outputs() {
  for (const int fd : {1, 2}) {
    struct pollfd at {
      .fd = fd, .events = POLLOUT, .revents = 0
    };
    if (poll(&at, 1, 0) != 1 || (at.revents & POLLERR) == 0) continue;
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere < 0) continue;
    dup2(nowhere, fd);
    close(nowhere);
  }
}

[[noreturn]] void end_now(int number) {
  std::signal(number, SIG_DFL);  // a further signal ends the process if removing files hangs too
  say(words.second);
  remove_leftovers();
  _exit(128 + number);
}

void on_signal(int number) {
  if (number == SIGPIPE) silence_broken_outputs();
  if (words.first == nullptr) end_now(number);
  if (stop != 0 && number == SIGPIPE) return;
  if (stop != 0) end_now(number);
  stop = number;
  say(words.first);
}

}  // namespace

StopSignals::StopSignals(const StopWords& said) {
  stop = 0;
  words = said;
  take_signal_stack();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    struct sigaction action {};
    sigaction(numbers[i], nullptr, &before[i]);
    const bool keep = (numbers[i] == SIGHUP || numbers[i] == SIGPIPE) && before[i].sa_handler == SIG_IGN;
    action.sa_handler = keep ? SIG_IGN : on_signal;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    sigaction(numbers[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < numbers.size(); ++i) sigaction(numbers[i], &before[i], nullptr);
}

StopWords StopSignals::at_once(const char* said) { return {.first = nullptr, .second = said}; }
void StopSignals::view_is_drawn(bool drawn) { over_view = drawn && isatty(STDERR_FILENO) == 1; }
void StopSignals::say_instead(const StopWords& said) { words = said; }

bool StopSignals::stop_requested() { return stop != 0; }
int StopSignals::signal_number() { return stop; }

void StopSignals::end_as_asked(const char* said) {
  CHECK(stop_requested());
  const int number = stop;
  say(said);
  std::fflush(nullptr);
  std::signal(number, SIG_DFL);
  std::raise(number);
  std::_Exit(128 + number);
}

}  // namespace tidepool
