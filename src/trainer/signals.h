// Ctrl-C and SIGTERM: the first asks for a clean stop, the second stops now.
#pragma once

namespace tidepool {

// Installs handlers for SIGINT and SIGTERM; the second signal ends the process at once with 128 + n,
// leaving the last good checkpoint. Restores the old ones when it goes. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;

  static bool stop_requested();
};

}  // namespace tidepool
