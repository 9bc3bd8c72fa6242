// The directory of one run: its lock, and the files that say what the run is.
#pragma once

#include <optional>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"
#include "config/config.h"
#include "io/directory_lock.h"

namespace tidepool {

enum class Beginning : u8 { anew, resumed };

// A run directory that its path no longer leads to.
struct MovedDirectory {
  std::string now;             // its path; empty: it was removed
  bool name_is_taken = false;  // something else stands where it was
};

// ErrorKind::usage where output.dir can be no directory of a run: the root, or the model's own.
Result<void> check_output_directory(const Config&);

inline constexpr const char* run_lock_name = "tidepool.run";

class RunDirectory {
 public:
  // Makes it where it is missing, and locks it for as long as this lives. ErrorKind::io: cannot be made, or a
  // live run has it; ErrorKind::usage: it holds checkpoints and the run begins anew. Nothing in it is
  // changed.
  static Result<RunDirectory> open(const std::string& dir, Beginning);

  // Asks the file system whether the path still leads here. Nothing: it does.
  std::optional<MovedDirectory> moved() const;
  // The same for every step: asks at most once a second. `now`: seconds of a steady clock.
  bool has_moved(double now);

  // How a plan differs from the one that plan.txt holds (plan_change); empty: it does not, or there is none.
  std::string change_of_plan(const std::string& plan) const;
  // Writes config.yaml and plan.txt.
  Result<void> describe_run(const std::string& config_yaml, const std::string& plan) const;

 private:
  std::string dir_;
  Fd fd_;  // the directory, whatever its name
  double looked_at_ = 0;
  bool has_moved_ = false;
  DirectoryLock lock_;
};

// A line for people where the config.yaml of a run is no longer what the run wrote: edited, or damaged.
// Empty: it is, or the run is of an older Tidepool, which did not seal it.
std::string change_of_written_config(const std::string& run_dir);

// "runs/a" of "runs/a/checkpoint-3/", of a link to that, and of "." and "checkpoint-3" as they lead from
// here. Empty: no run has the checkpoint.
std::string run_of_checkpoint(const std::string& checkpoint);

}  // namespace tidepool
