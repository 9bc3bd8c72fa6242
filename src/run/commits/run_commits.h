// RunCommits makes the commits of a run: chooses the steps, by CommitPace, and tells the run's durability and
// its directory of each.
#pragma once

#include <optional>
#include <string>

#include "config/config.h"
#include "durability/run_durability.h"
#include "engine/engine.h"
#include "probe/step/predict.h"
#include "run/commits/branch_file.h"
#include "run/commits/commit_pace.h"
#include "run/commits/commit_progress.h"
#include "run/outputs/run_outputs.h"
#include "session/session.h"

namespace tidepool {

class RunCommits {
 public:
  // REQUIRES: `durability` outlives this object.
  explicit RunCommits(RunDurability& durability) : durability_(durability), progress_(durability) {}

  // Call before the state is loaded. REQUIRES: the session outlives this object, or its successor is given
  // here.
  void begin(Session&, const CommitPace&);
  // Commits the step, if the plan has not done so. At rest; blocks.
  // RETURNS: false if the run commits nothing, or not this step.
  Result<bool> commit_at_rest(u64 step);
  // Commits the step, whether it is committed already or not.
  Result<bool> commit_again(u64 step);
  // The session has taken over what an earlier process, or the plan before this one, has committed.
  void taken_over(u64 step);
  // Part of the time that a save of `bytes` in the background may use. On CPUs it takes cores from the
  // training; with GPUs half of the time in which the disk has nothing to do. More if the save would take
  // many minutes, in which with two versions no step is committed.
  static double share_of_saves(const Prediction&, bool gpus, Bytes bytes);

  // Tells the run directory too which step is committed. REQUIRES: the file outlives this object.
  void remember_in(BranchFile& file) {
    file_ = &file;
    progress_.remember_in(file);
  }

  CommitProgress& progress() { return progress_; }
  // `so_far`: where the time of the run's segments went. Says if the steps between commits change.
  // RETURNS: the segment, with the choice whether its step is committed.
  SegmentRun with_choice(SegmentRun, const PhaseProfile& so_far, RunOutputs&);
  void completed(const Issue&, const Completion&);
  // Steps are replayed from the last commit on.
  void replayed() { ++totals_.replays; }
  const CommitPace& pace() const { return pace_; }
  // Numbers of the last commit's step. REQUIRES: there is a commit.
  const CommitProgress::Numbers& last_numbers() const { return last_; }
  // Advice for messages: to resume from the last commit.
  std::string resume_hint() const;
  // A line for people: how often, and what it moves. Empty: the run commits nothing.
  std::string describe() const;

 private:
  bool is_due(u64 updated, const PhaseProfile& so_far, RunOutputs&);
  void committed(Event, u64 step);
  std::string how_often() const;
  bool is_news(u64 steps);

  RunDurability& durability_;
  CommitProgress progress_;
  Session* session_ = nullptr;
  BranchFile* file_ = nullptr;
  CommitPace pace_;
  u64 said_ = 0;  // steps from commit to commit, as the run has logged them last
  CommitPace::Totals totals_;
  CommitProgress::Numbers last_;
};

}  // namespace tidepool
