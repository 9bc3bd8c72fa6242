// probe_machine() measures this machine: everything that a machine file holds.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/disk.h"
#include "probe/rates.h"
#include "tidepool/machine.h"

namespace tidepool {

struct ProbeOptions {
  std::string disk_dir = ".";  // empty: no disk
  double seconds = 40;         // approximately; a few rounds are measured in any case
  u32 threads = 0;             // 0: all cores of this process
  DiskBackend backend = DiskBackend::automatic;
  std::optional<u32> gpu;  // REQUIRES: gpu_backend() can use it. None: the CPU is the device
};

struct ProbeHooks {
  // Called with the current activity and the share of the time that has passed, 0 to 1.
  // THREADS: the calling thread.
  std::function<void(double fraction, std::string_view what)> progress;
  // Called about every half second; true ends the probe with ErrorKind::interrupted, and leaves no files
  // behind.
  std::function<bool()> stop;
};

struct ProbeResult {
  Machine machine;  // rates rounded to 4 digits
  Rates rates;      // every sample
  u32 rounds = 0;
  double seconds = 0;  // duration of the probe
  std::string disk;    // "io_uring, 32 deep, ..."; empty: no disk
  std::string notes;   // lines for people
};

Result<ProbeResult> probe_machine(const ProbeOptions&, const ProbeHooks&);

}  // namespace tidepool
