// The signals that ask a process to end: Ctrl-C, SIGTERM, a terminal that closes (SIGHUP) and an output that
// nobody reads any more (SIGPIPE).
#pragma once

namespace tidepool {

// What is said at each signal; literals, as a signal handler prints them.
struct StopWords {
  const char* first = "\ntidepool: finishing the step, then saving; again to stop at once\n";
  const char* second = "\ntidepool: stopped at once; the last checkpoint is intact\n";
};

// Installs handlers; restores the old ones when it goes. One at a time. The first signal asks for a clean
// stop, the second ends the process at once with 128 + n, without the files that only a live job needs.
// SIGHUP and SIGPIPE that were ignored (nohup, train) stay so. After SIGPIPE the output goes nowhere, and
// further ones are not counted: writing goes on.
class StopSignals {
 public:
  explicit StopSignals(const StopWords& = {});
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;

  // For what has nothing to save, or not yet: already the first signal ends the process.
  static StopWords at_once(const char* said);
  // What is true by now: literals. While one is installed.
  static void say_instead(const StopWords&);

  // While a live view is on the terminal, what is said stands in its place, and not across it.
  static void view_is_drawn(bool);

  static bool stop_requested();
  static int signal_number();  // that asked; 0: none

  // After a clean stop with nothing to hand on: says `said`, and ends as the shell expects of a process that
  // the signal ended. REQUIRES: stop_requested().
  [[noreturn]] static void end_as_asked(const char* said);
};

}  // namespace tidepool
