// CommitPace says how many steps lie between two commits. With output.persist_steps: auto there are so many
// that commits take about 2 % of the time at most: a forecast says how many at first, and then the measured
// cost of commits, above all of their flushes, whose time no forecast knows. A commit costs what training
// waits for it, or all of its own time if that is more: a flush hinders the reads and writes beside it too.
// Fewer steps lie between if steps are replayed from the last commit on (Replay).
#pragma once

#include "engine/profile.h"
#include "probe/step/predict.h"

namespace tidepool {

class CommitPace {
 public:
  // Totals are of a run so far.
  struct Totals {
    u64 steps = 0, commits = 0, replays = 0;
    Nanos wall{}, waited{};  // of all steps, and the part of it that waited for commits
    Nanos committing{};      // by all commits together
  };

  CommitPace() = default;  // nothing is committed
  // `follows`: the steps change as commits turn out to cost more or less.
  CommitPace(u64 steps, bool follows) : steps_(steps), follows_(follows) {}

  // The same pace for a run whose totals begin anew.
  CommitPace from_here() const { return {steps_, follows_}; }

  u64 steps() const { return steps_; }                // 0: nothing is committed
  double seconds_of_commit() const { return cost_; }  // of late; 0: unknown
  // Call when a step may be committed: all that the last commit has cost is then in the totals.
  // RETURNS: true if the steps have changed.
  bool follow(const Totals&);

 private:
  u64 steps_ = 0;
  bool follows_ = false;
  Totals before_;  // when the steps were last looked at
  double cost_ = 0;
};

// `prediction`: of the session's step; without blocks, nothing is known of its times.
CommitPace commit_pace(const Session&, const Prediction& prediction);

}  // namespace tidepool
