// find_committed_run() looks for the state that a run has committed, and refuses a resume that would leave
// committed steps behind without being told to. Each refusal names the ways out.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "fit/job.h"
#include "run/commits/branch_file.h"
#include "run/commits/committed_run.h"

namespace tidepool {

struct FoundCommit {
  std::optional<CommittedRun> run;  // in the swap directory; nullopt: nothing of use
  bool is_asked_for = false;        // --resume names its file: no checkpoint counts instead
  // The run has left the branch of this commit at that step: later checkpoints are of another branch.
  std::optional<u64> left_at;
  std::optional<BranchNote> note;  // of the run directory
};

// `resume`: as in TrainRequest, or the path of the swap file.
// Nothing is found if a live job uses the swap directory.
// Errors, and nothing is changed: usage if the state is of another run, branch or model, if it is older than
// what the run has committed or missing, or if `resume` would leave it behind; bad_input if a file is
// damaged.
Result<FoundCommit> find_committed_run(const Job&, const std::string& resume,
                                       const std::function<void(const std::string&)>& warn);

// Steps that can be resumed from; nullopt: none.
struct ReachedSteps {
  std::optional<u64> commit, checkpoint;
  u64 last() const { return std::max(commit.value_or(0), checkpoint.value_or(0)); }
};
// RETURNS: the error of --resume auto if the run has committed later steps; nullopt: nothing is left behind.
std::optional<Error> leaves_steps_behind(const Config&, const std::optional<BranchNote>&,
                                         const ReachedSteps&);

// Path that a journal has of a run's directory.
std::string run_name(const Config&);

}  // namespace tidepool
