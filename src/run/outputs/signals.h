// StopSignals handles the signals that ask a process to end: Ctrl-C, SIGTERM, a terminal that closes
// (SIGHUP), and an output that nobody reads any more (SIGPIPE).
#pragma once

#include <chrono>

namespace tidepool {

// StopWords holds the message for each signal. Literals, because a signal handler prints them. No message
// waits for a reader: a terminal that is stopped must not keep a process from saving or ending.
struct StopWords {
  const char* first = "\ntidepool: finishing the step, then saving; interrupt again to stop at once\n";
  const char* second = "\ntidepool: stopped at once; the last checkpoint is intact\n";
};

// One request may send several signals: a terminal that closes sends SIGHUP twice (kernel and shell), and
// `timeout` signals the process and then its group. Signals that come this soon after the first are the same
// request.
constexpr std::chrono::milliseconds same_request(1000);

// StopSignals installs handlers while it lives, then restores the old ones. The first signal requests a clean
// stop. The second, later than `same_request`, ends the process at once with exit code 128 + n, and removes
// the files that only a live job needs. SIGHUP is never the second: nobody at the terminal asks again. SIGHUP
// and SIGPIPE stay ignored if they were ignored before (nohup, train). After SIGPIPE the output goes to
// /dev/null and writing continues; further SIGPIPEs are not counted.
// REQUIRES: at most one object at a time.
class StopSignals {
 public:
  explicit StopSignals(const StopWords& = {});
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;

  // Words for a process that has nothing to save (yet): the first signal ends the process at once.
  static StopWords at_once(const char* said);
  // Replaces the messages.
  // REQUIRES: literals; a StopSignals object is installed.
  static void say_instead(const StopWords&);

  static bool stop_requested();
  static int signal_number();  // the signal that requested the stop; 0: none

  // Ends the process after a clean stop that has no result to return: prints `said`, then ends by the same
  // signal, as the shell expects.
  // REQUIRES: stop_requested().
  [[noreturn]] static void end_as_asked(const char* said);
};

}  // namespace tidepool
