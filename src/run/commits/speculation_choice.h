// SpeculationChoice decides, for `train.speculate: auto`, whether updates wait for the norm: by the run's own
// norms, by the gain that is predicted on this machine, and then by the steps' measured times.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "fit/plan_run.h"
#include "probe/step/predict.h"

namespace tidepool {

class SpeculationChoice {
 public:
  // Steps in a row whose norm changes nothing, after which updates stop waiting. `untried`: whatever gain is
  // predicted (tests). `timed`: steps of each policy whose times are compared, at most `steps`; 0: none are.
  struct Patience {
    u64 steps = 20;
    bool untried = false;
    u64 timed = 16;
  };
  SpeculationChoice(const Config&, const Patience&);

  struct Step {
    bool speculated = false;  // its update did not wait for the norm
    bool changed = false;     // its norm has changed updates
    u64 again = 0;            // steps that were replayed before it
    double took = 0;          // seconds
  };
  // Call when a step is done.
  void step_done(const Step&);
  // True if it may be time for the other policy. The answer is due at rest, by `switches`.
  bool asks() const { return asks_; }
  // The run cannot change its policy.
  void close() { open_ = asks_ = false; }
  // RETURNS: a line for people about the other policy, to which the run changes; empty: it stays.
  std::string switches(const ModelGraph&, const Plan&, const RunPlan&, const Prediction&);

 private:
  void time_step(const Step&);
  std::string wait_again();
  bool is_worth_it(const ModelGraph&, const Plan&, const RunPlan&, const Prediction&);

  bool open_ = false;  // false: the config has chosen, or it is impossible
  bool asks_ = false;
  Patience patience_;
  u64 calm_ = 0;              // steps in a row that the norm has not changed
  double gain_ = 0;           // part of a step's time that speculation saves
  double again_ = 0;          // steps replayed, of late
  std::vector<double> took_;  // seconds of the latest steps with this policy
  u64 steps_ = 0;             // steps with this policy
  double waiting_took_ = 0;   // median while updates waited
  bool is_no_faster_ = false;
};

}  // namespace tidepool
