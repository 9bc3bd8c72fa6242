// Trainer runs a training from config to report. It decides which segment runs next, when to rest, and what
// is written.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "config/config.h"
#include "io/disk.h"
#include "net/transport.h"
#include "probe/step/sampling.h"
#include "report/run_report.h"
#include "run/commits/speculation_choice.h"

namespace tidepool {

struct TrainRequest {
  Config config;
  std::string resume;   // "": anew; "auto": the newest checkpoint that verifies; else a checkpoint's path
  std::string command;  // the words to repeat this run
  bool quiet = false;   // tests: nothing is printed; steps are not predicted, unless `sampling` says how
  u64 stop_after = 0;   // tests: behaves as if a signal came during this step; 0: never
  SpeculationChoice::Patience speculation;  // tests: other than the default
  std::optional<Sampling> sampling;         // tests: of the prediction, other than the default
  OpenDisk open_disk;                       // tests: a disk in place of the swap file
  Transport* transport = nullptr;           // to the other nodes of the run; null: there are none
  // The watchdog reports a hang if no op completes for this long, or for twenty predicted steps if that is
  // longer.
  Nanos watchdog_least{300'000'000'000};
};

// Trains until max_steps, early stopping, a signal, or a fault. Writes all files of the run directory. A run
// can be resumed after any error.
// ErrorKind::interrupted after a signal, with a full checkpoint written; non_finite; and the errors of the
// parts.
// On several nodes all call it with their transport. A node that ends with an error tells the others, which
// end with it too. If something hangs, such as a disk that does not answer, prints this on stderr and ends
// the process with the error's exit code: waiting for threads or the disk would hang too.
Result<RunReport> train_model(const TrainRequest&);

}  // namespace tidepool
