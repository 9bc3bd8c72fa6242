// RunDirectory is the directory of one run: it holds the lock, and the files that describe the run.
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

// MovedDirectory describes a run directory that was renamed or removed while the run used it.
struct MovedDirectory {
  std::string now;             // the directory's new path; empty: it was removed
  bool name_is_taken = false;  // another file or directory has its old path
};

// ErrorKind::usage if output.dir cannot be a run directory: empty, a file or below a file, the root, the
// model's own directory, or inside a checkpoint. ErrorKind::io if something that is no regular file
// has the name of a file that the run writes there, or something that is no checkpoint the name of one.
Result<void> check_output_directory(const Config&);

inline constexpr const char* run_lock_name = "tidepool.run";
inline constexpr const char* run_log_name = "run.log";

class RunDirectory {
 public:
  // Creates the directory if it is missing, and locks it while this object lives. Changes nothing in it.
  // ErrorKind::io if it cannot be created, or a live run holds the lock.
  static Result<RunDirectory> open(const std::string& dir);
  // As open(); a no-op if this object holds the directory.
  Result<void> lock(const std::string& dir);
  // ErrorKind::usage if the directory holds checkpoints and the run begins anew.
  Result<void> check_beginning(Beginning) const;

  // Asks the file system for the directory's present path.
  // RETURNS: nullopt if the path is unchanged.
  std::optional<MovedDirectory> moved() const;
  // moved() for calls at every step: asks at most once a second. `now`: seconds of a steady clock.
  bool has_moved(double now);

  // RETURNS: how `plan` differs from plan.txt, as plan_change(); empty: it is the same, or there is no
  // plan.txt.
  std::string change_of_plan(const std::string& plan) const;
  // Writes config.yaml and plan.txt.
  Result<void> describe_run(const std::string& config_yaml, const std::string& plan) const;

 private:
  std::string dir_;
  Fd fd_;  // stays on the directory when it is renamed
  double looked_at_ = 0;
  bool has_moved_ = false;
  DirectoryLock lock_;
};

// RETURNS: a line for people if a run's config.yaml was edited or damaged after the run wrote it. Empty:
// unchanged, or written by an older Tidepool, which did not seal it.
std::string change_of_written_config(const std::string& run_dir);

// RETURNS: the run directory of a checkpoint: "runs/a" for "runs/a/checkpoint-3/", or for a link to it.
// Resolves "." and "checkpoint-3" against the working directory. Empty: the checkpoint is in no run
// directory.
std::string run_of_checkpoint(const std::string& checkpoint);

}  // namespace tidepool
