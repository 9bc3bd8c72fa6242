#include "run/outputs/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/check.h"
#include "base/process/signal_stack.h"
#include "base/types.h"
#include "io/sudden_end.h"
#include "report/print_text.h"
#include "report/standard_writers.h"

namespace tidepool {
namespace {

constexpr std::array<int, 4> numbers = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

volatile std::sig_atomic_t stop = 0;  // the signal's number
std::atomic<i64> stop_ms = 0;         // time of that signal, set before `stop`
static_assert(std::atomic<i64>::is_always_lock_free, "signal handlers use it");
StopWords words;  // first == nullptr: there is no clean stop
std::array<struct sigaction, numbers.size()> before;

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

// AddressSanitizer allocates memory before a call that does not return, and a handler may have interrupted
// the allocator: no such call of a handler's is instrumented.
[[noreturn, gnu::no_sanitize_address]] void end_now(int number) {
  // A further signal ends the process if removing files hangs too. A terminal that closes sends two.
  std::signal(number, number == SIGHUP ? SIG_IGN : SIG_DFL);
  say_in_handler(words.second);
  settle_in_handler();
  remove_leftovers();  // last: other threads still run, and must not make a file again
  _exit(128 + number);
}

// std::chrono promises no async-signal-safe clock.
i64 now_ms() {
  struct timespec now {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return i64{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

bool asks_again(int number) {
  return number != SIGHUP && number != SIGPIPE && now_ms() - stop_ms > same_request.count();
}

[[gnu::no_sanitize_address]] void on_signal(int number) {
  if (number == SIGPIPE) silence_broken_outputs();
  if (words.first == nullptr) end_now(number);
  if (stop != 0) {
    if (asks_again(number)) end_now(number);
    return;
  }
  stop_ms = now_ms();
  stop = number;
  say_in_handler(words.first);
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
void StopSignals::say_instead(const StopWords& said) { words = said; }

bool StopSignals::stop_requested() { return stop != 0; }
int StopSignals::signal_number() { return stop; }

void StopSignals::end_as_asked(const char* said) {
  CHECK(stop_requested());
  const int number = stop;
  print_text(stderr, "{}", said);
  std::fflush(nullptr);
  std::signal(number, SIG_DFL);
  std::raise(number);
  std::_Exit(128 + number);
}

}  // namespace tidepool
