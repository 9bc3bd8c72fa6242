// Ctrl-C and SIGTERM: the first asks for a clean stop, the second stops now.
#pragma once

namespace tidepool {

// What is said at each signal; literals, as a signal handler prints them.
struct StopWords {
  const char* first = "\ntidepool: finishing the step, then saving; again to stop at once\n";
  const char* second = "\ntidepool: stopped at once; the last checkpoint is intact\n";
};

// Installs handlers for SIGINT and SIGTERM; the second signal ends the process at once with 128 + n,
// leaving the last good checkpoint. Restores the old ones when it goes. One at a time.
class StopSignals {
 public:
  explicit StopSignals(const StopWords& = {});
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;

  static bool stop_requested();
  static int signal_number();  // that asked; 0: none
};

}  // namespace tidepool
