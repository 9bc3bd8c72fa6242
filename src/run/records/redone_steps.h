// RedoneSteps trains steps again whose updates assumed another norm than their gradients have
// (Plan::speculates): training returns to the last recorded step, and then knows that norm.
#pragma once

#include <optional>
#include <utility>

#include "checkpoint/trainer_state.h"
#include "report/run_report.h"
#include "run/records/run_records.h"
#include "session/session.h"

namespace tidepool {

class RedoneSteps {
 public:
  // Call when the norm of a step is known.
  // RETURNS: true if the step must be trained again: then nothing of it counts.
  bool must_redo(const Session&, u64 step);
  // A step was found that must be trained again: nothing that runs counts.
  bool found() const { return wrong_step_.has_value(); }

  // True if an earlier try has told of the step already. Call when the step is done.
  bool is_known(u64 step);

  // Returns to the last record: session, `state`, and what records say of it. At rest; blocks.
  // REQUIRES: found().
  // RETURNS: the step of the record.
  // Errors: io, if the recorded state cannot be read.
  Result<u64> go_back(Session&, RunRecords&, TrainerState& state);

  void fill(RunReport&, const Plan&) const;
  // RETURNS: steps that were trained once more since the last call.
  u64 take_again() { return std::exchange(again_, 0); }

 private:
  std::optional<u64> wrong_step_;
  u64 known_ = 0;  // the last step that was told of
  u64 again_ = 0;
  u64 times_ = 0, steps_ = 0;  // steps that were trained once more, each time
};

}  // namespace tidepool
