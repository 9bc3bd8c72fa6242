// RunRecords decides which steps of a run are recorded, and knows the last one that was.
#pragma once

#include <optional>
#include <string>

#include "config/config.h"
#include "engine/engine.h"
#include "probe/step/predict.h"
#include "run/records/progress_record.h"
#include "session/session.h"

namespace tidepool {

// Steps between records. `prediction`: of the plan; without blocks, nothing is known of its times.
u64 persist_steps(const Config&, const Plan&, const ModelGraph&, const Prediction& prediction);

class RunRecords {
 public:
  // Call before the state is loaded. REQUIRES: the session outlives this object.
  void begin(Session&, u64 persist_steps);
  // Records the step, if the plan has not done so. At rest; blocks.
  // RETURNS: false if the run records nothing, or not this step.
  Result<bool> record_at_rest(u64 step);
  // Part of the time that a save of `bytes` in the background may use. On CPUs it takes cores from the
  // training; with GPUs half of the time in which the disk has nothing to do. More if the save would take
  // many minutes, in which with two versions no step is recorded.
  static double share_of_saves(const Prediction&, bool gpus, Bytes bytes);
  // The session's swap file has a record of this step, whose numbers progress() holds.
  void recorded(u64 step);

  ProgressRecord& progress() { return progress_; }
  // RETURNS: the segment, with the choice whether its step is recorded.
  SegmentRun with_choice(SegmentRun) const;
  void completed(const Issue&);
  u64 last_step() const { return last_ ? last_->step : 0; }  // 0: none was recorded
  const std::optional<ProgressRecord::Numbers>& last_numbers() const { return last_; }
  u64 persist_steps() const { return every_; }
  // Advice for messages: goes on from the last record, if it is newer than the last checkpoint; else `else_`.
  std::string way_on(std::optional<u64> last_checkpoint, std::string else_) const;
  // A line for people: how often, and what it moves. Empty: the run records nothing.
  std::string describe() const;

 private:
  ProgressRecord progress_;
  Session* session_ = nullptr;
  u64 every_ = 0;                                // steps; 0: never
  std::optional<ProgressRecord::Numbers> last_;  // of the last record
};

}  // namespace tidepool
