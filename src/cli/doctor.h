// `tidepool doctor`: what this machine lacks or limits, and the fix. Looks, changes nothing.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.h"

namespace tidepool {

class GpuBackend;

enum class Health : u8 { ok, warn, fail };  // fail: training is impossible

struct Finding {
  Health health = Health::ok;
  std::string what;                          // "io_uring"
  std::string found;                         // what there is, a few words
  std::string fix;                           // what to do; empty where all is well
  ErrorKind kind = ErrorKind::does_not_fit;  // exit code of a fail
};

// Cores and memory; then the disk's own.
std::vector<Finding> examine_cores(const DoctorArguments&);
// `backend`: null where the program was built without CUDA.
std::vector<Finding> examine_gpus(const DoctorArguments&, const GpuBackend* backend);
std::vector<Finding> examine_memory(const DoctorArguments&);
std::vector<Finding> examine_disk(const DoctorArguments&);

std::string findings_text(const std::vector<Finding>&);  // a table, 80 columns

}  // namespace tidepool
