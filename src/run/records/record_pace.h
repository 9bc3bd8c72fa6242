// RecordPace says how many steps lie between two records. With output.persist_steps: auto there are so many
// that records take about 2 % of the time at most: a forecast says how many at first, and then what records
// turn out to cost, above all their flushes, whose time no forecast knows. A record costs what training waits
// for it, or all of its own time if that is more: a flush hinders the reads and writes beside it too. Where
// steps are trained again from the last record on (RedoneSteps), fewer steps lie between.
#pragma once

#include "config/config.h"
#include "engine/profile.h"
#include "probe/step/predict.h"

namespace tidepool {

class RecordPace {
 public:
  // Totals are of a run so far.
  struct Totals {
    u64 steps = 0, records = 0, redos = 0;
    Nanos wall{}, waited{};  // of all steps, and the part of it that waited for records
    Nanos recording{};       // by all records together
  };

  RecordPace() = default;  // nothing is recorded
  // `follows`: the steps change as records turn out to cost more or less.
  RecordPace(u64 steps, bool follows) : steps_(steps), follows_(follows) {}

  // The same pace for a run whose totals begin anew.
  RecordPace from_here() const { return {steps_, follows_}; }

  u64 steps() const { return steps_; }                // 0: nothing is recorded
  double seconds_of_record() const { return cost_; }  // of late; 0: unknown
  // Call when a step may be recorded: all that the last record has cost is then in the totals.
  // RETURNS: true if the steps have changed.
  bool follow(const Totals&);

 private:
  u64 steps_ = 0;
  bool follows_ = false;
  Totals before_;  // when the steps were last looked at
  double cost_ = 0;
};

// `prediction`: of the plan; without blocks, nothing is known of its times.
RecordPace record_pace(const Config&, const Plan&, const ModelGraph&, const Prediction& prediction);

}  // namespace tidepool
