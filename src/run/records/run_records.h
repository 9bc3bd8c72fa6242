// RunRecords decides which steps of a run are recorded, and knows the last one that was.
#pragma once

#include <optional>
#include <string>

#include "config/config.h"
#include "engine/engine.h"
#include "probe/step/predict.h"
#include "run/outputs/run_outputs.h"
#include "run/records/branch_file.h"
#include "run/records/progress_record.h"
#include "run/records/record_pace.h"
#include "session/session.h"

namespace tidepool {

class RunRecords {
 public:
  // Call before the state is loaded. REQUIRES: the session outlives this object.
  void begin(Session&, const RecordPace&);
  // Records the step, if the plan has not done so. At rest; blocks.
  // RETURNS: false if the run records nothing, or not this step.
  Result<bool> record_at_rest(u64 step);
  // Part of the time that a save of `bytes` in the background may use. On CPUs it takes cores from the
  // training; with GPUs half of the time in which the disk has nothing to do. More if the save would take
  // many minutes, in which with two versions no step is recorded.
  static double share_of_saves(const Prediction&, bool gpus, Bytes bytes);
  // The session's swap file has a record of this step, whose numbers progress() holds.
  void recorded(u64 step);

  // Tells the run directory too which step is recorded. REQUIRES: the file outlives this object.
  void remember_in(BranchFile& file) {
    file_ = &file;
    progress_.remember_in(file);
  }

  ProgressRecord& progress() { return progress_; }
  // `so_far`: where the time of the run's segments went. Says if the steps between records change.
  // RETURNS: the segment, with the choice whether its step is recorded.
  SegmentRun with_choice(SegmentRun, const PhaseProfile& so_far, RunOutputs&);
  void completed(const Issue&, const Completion&);
  // The run goes on from the last record, to train steps again.
  void went_back();
  const RecordPace& pace() const { return pace_; }
  u64 last_step() const { return last_ ? last_->step : 0; }  // 0: none was recorded
  const std::optional<ProgressRecord::Numbers>& last_numbers() const { return last_; }
  // Advice for messages: goes on from the last record, if it is newer than the last checkpoint; else `else_`.
  std::string way_on(std::optional<u64> last_checkpoint, std::string else_) const;
  // A line for people: how often, and what it moves. Empty: the run records nothing.
  std::string describe() const;

 private:
  bool is_due(u64 updated, const PhaseProfile& so_far, RunOutputs&);
  std::string how_often() const;
  bool is_news(u64 steps);

  ProgressRecord progress_;
  Session* session_ = nullptr;
  BranchFile* file_ = nullptr;
  RecordPace pace_;
  u64 said_ = 0;  // steps from record to record, as the run has told them last
  RecordPace::Totals totals_;
  u64 chosen_ = 0;                               // the last step that was to be recorded
  std::optional<ProgressRecord::Numbers> last_;  // of the last record
};

}  // namespace tidepool
