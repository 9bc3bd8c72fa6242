// Replay trains steps again whose updates assumed another norm than their gradients have (Plan::speculates):
// training returns to the last commit, and then knows that norm.
#pragma once

#include <utility>

#include "checkpoint/trainer_state.h"
#include "report/run_report.h"
#include "run/commits/run_commits.h"
#include "session/session.h"

namespace tidepool {

class Replay {
 public:
  // Returns to the last commit: session, `state`, and the run's durability. At rest; blocks.
  // REQUIRES: Phase::rolls_back.
  // Errors: io, if the committed state cannot be read.
  Result<void> go_back(Session&, RunDurability&, RunCommits&, TrainerState& state);

  void fill(RunReport&, const Plan&) const;
  // RETURNS: steps that were replayed since the last call.
  u64 take_again() { return std::exchange(again_, 0); }

 private:
  u64 again_ = 0;
  u64 times_ = 0, steps_ = 0;  // steps that were replayed, each time
};

}  // namespace tidepool
