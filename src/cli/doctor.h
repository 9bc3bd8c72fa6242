// The doctor finds what this machine lacks or limits, and how to fix it: `tidepool doctor`. It is read-only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "fit/job.h"

namespace tidepool {

class GpuBackend;

struct DoctorArguments {
  std::string swap_dir = ".";
  std::string executor = "cpu";  // machine.executor
  std::vector<u32> gpus;         // the GPUs that machine.executor names
  bool exchange = true;          // they exchange data: machine.parallel is not layers
  Precision precision{};         // train.precision
  std::optional<Config> config;  // of a run to check
};

enum class Health : u8 { ok, warn, fail };  // fail: training is impossible

struct Finding {
  Health health = Health::ok;
  std::string what;                          // "io_uring"
  std::string found;                         // state of `what`, in a few words
  std::string fix;                           // what to do; empty: nothing
  ErrorKind kind = ErrorKind::does_not_fit;  // exit code if `health` is fail
};

// Wanted holds the memory and disk that a run would take here. All are 0 if not known.
struct Wanted {
  Bytes memory{};  // host memory for arenas
  Bytes beside{};  // host memory for the rest of the process
  Bytes disk{};    // swap space
  bool swaps = true;
};

std::vector<Finding> examine_cores(const DoctorArguments&);
// `backend`: null if the program was built without CUDA.
std::vector<Finding> examine_gpus(const DoctorArguments&, const GpuBackend* backend);
// Makes the checks that `train` makes before its first step, and sets `wanted` to what the plan takes.
std::vector<Finding> examine_plan(const Result<Job>&, Wanted& wanted);
// Opens the data, without tokenizing it, and says what `train` would say.
Finding examine_data(const Config&);
// Says if a run can use output.dir. Creates nothing.
Finding examine_output(const Config&, const Result<Job>&);
std::vector<Finding> examine_memory(const Wanted&);
std::vector<Finding> examine_disk(const std::string& swap_dir, const Wanted&);

std::string findings_text(const std::vector<Finding>&);  // a table, 80 columns

}  // namespace tidepool
