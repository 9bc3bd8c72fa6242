// `tidepool doctor`: what this machine lacks or limits, and the fix. Looks, changes nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/config.h"

namespace tidepool {

class GpuBackend;

struct DoctorArguments {
  std::string swap_dir = ".";
  std::string executor = "cpu";  // machine.executor, and the GPUs that it names
  std::vector<u32> gpus;
  Precision precision{};         // train.precision
  std::optional<Config> config;  // of a run to be tried; its plan says what it takes
};

enum class Health : u8 { ok, warn, fail };  // fail: training is impossible

struct Finding {
  Health health = Health::ok;
  std::string what;                          // "io_uring"
  std::string found;                         // what there is, a few words
  std::string fix;                           // what to do; empty where all is well
  ErrorKind kind = ErrorKind::does_not_fit;  // exit code of a fail
};

// Memory and disk that a run would take here. All are 0 if none is known.
struct Wanted {
  Bytes memory{};  // of the host, for arenas
  Bytes beside{};  // of the host, for the rest of the process
  Bytes disk{};    // swap space
  bool swaps = true;
};

std::vector<Finding> examine_cores(const DoctorArguments&);
// `backend`: null where the program was built without CUDA.
std::vector<Finding> examine_gpus(const DoctorArguments&, const GpuBackend* backend);
// Asks what `train` asks before its first step, and leaves in `wanted` what the plan takes.
std::vector<Finding> examine_plan(const DoctorArguments&, Wanted& wanted);
std::vector<Finding> examine_memory(const Wanted&);
std::vector<Finding> examine_disk(const std::string& swap_dir, const Wanted&);

std::string findings_text(const std::vector<Finding>&);  // a table, 80 columns

}  // namespace tidepool
