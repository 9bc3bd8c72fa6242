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
  // predicted (tests). `timed`: steps of each way whose times are compared, at most `steps`; 0: none are.
  struct Patience {
    u64 steps = 20;
    bool untried = false;
    u64 timed = 16;
  };
  SpeculationChoice(const Config&, const Patience&);

  // True if updates are to speculate.
  bool speculates() const { return speculates_; }
  // Call when a step is done. `changed`: its norm has changed updates. `again`: steps that were trained once
  // more because of it. `took`: its seconds.
  void step_done(bool changed, u64 again, double took);
  // True if it may be time for the other way. The answer is due at rest, by `switches`.
  bool asks() const { return asks_; }
  // The run cannot change its way.
  void close() { open_ = asks_ = false; }
  // The run has not switched after all, and does not ask again.
  void stays() {
    speculates_ = !speculates_;
    close();
  }
  // RETURNS: what to say before the run goes on the other way; empty: it stays.
  std::string switches(const ModelGraph&, const Plan&, const RunPlan&, const Prediction&);

 private:
  void time_step(double took);
  std::string wait_again();
  bool is_worth_it(const ModelGraph&, const Plan&, const RunPlan&, const Prediction&);

  bool open_ = false;  // false: the config has chosen, or it is impossible
  bool speculates_ = false, asks_ = false;
  Patience patience_;
  u64 calm_ = 0;              // steps in a row that the norm has not changed
  double gain_ = 0;           // part of a step's time that speculation saves
  double again_ = 0;          // steps trained once more, of late
  std::vector<double> took_;  // seconds of the latest steps on this way
  u64 steps_ = 0;             // steps on this way
  double waiting_took_ = 0;   // median while updates waited
  bool is_no_faster_ = false;
};

}  // namespace tidepool
