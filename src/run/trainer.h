// The training loop's decisions: what runs next, when to rest, and what is written down.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "config/config.h"
#include "io/disk.h"
#include "report/run_report.h"

namespace tidepool {

struct TrainRequest {
  Config config;
  std::string resume;   // "": anew; "auto": the newest checkpoint that verifies; else a checkpoint's path
  std::string command;  // the words to repeat this run
  bool quiet = false;   // tests: nothing is printed
  u64 stop_after = 0;   // tests: behaves as if a signal came during this step; 0: never
  OpenDisk open_disk;   // tests: a disk in place of the swap file
  // With no op completed for this long, or for twenty predicted steps if that is longer, the run hangs.
  Nanos watchdog_least{300'000'000'000};
};

// Trains until max_steps, a signal, or a fault. Writes everything a run directory holds. Errors:
// ErrorKind::interrupted after a signal (a full checkpoint is written), non_finite, and those of its
// parts; the run can be resumed after any of them. Where something hangs (a disk that does not answer), it
// says so on stderr and ends the process with the error's exit code: nothing could be waited for any more.
Result<RunReport> train_model(const TrainRequest&);

}  // namespace tidepool
