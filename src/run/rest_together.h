// RestTogether makes several nodes rest after the same step.
//
// A node wishes what it alone has learned, such as a signal, and all hear of it with the norm of the step
// that it packs next. When the next segment is chosen, the norm of the step before the last has ended on
// every node, and perhaps a later one on some: so only that one is asked.
#pragma once

#include "executor/shared/step_results.h"

namespace tidepool {

class RestTogether {
 public:
  struct Wishes {
    bool rest = false, save = false, stop = false;
  };

  // Sets this node's wishes from now on. A wish that was not heard yet must be told again.
  void tell(StepResults& results, const Wishes& wishes) const {
    results.wish((wishes.rest ? wish_rest : 0) | (wishes.save ? wish_save : 0) |
                 (wishes.stop ? wish_stop : 0));
  }
  // A step has failed, on all nodes alike.
  void failed(u64 step) { failed_step_ = step; }
  // The nodes rest, after this step. A wish that led here is not obeyed again.
  void rested(u64 step) { rested_after_ = step; }

  // RETURNS: true if the step that was chosen last is the last before a rest.
  bool must_rest(const StepResults& results, u64 issued) {
    const u64 known = issued - 1;
    saves_ = false;
    if (known <= rested_after_) return false;
    const u64 wishes = results.wishes(known);
    stops_ = stops_ || (wishes & wish_stop) != 0;
    saves_ = (wishes & wish_save) != 0;
    return wishes != 0 || (failed_step_ != 0 && failed_step_ <= known);
  }
  // True if a node's wish to stop was heard.
  bool stops() const { return stops_; }
  // At rest: true if a node's wish to save led here. Then all nodes forget theirs, because the save is of the
  // same step for all.
  bool saves() const { return saves_; }

 private:
  static constexpr u64 wish_rest = 1, wish_stop = 2, wish_save = 4;

  u64 rested_after_ = 0, failed_step_ = 0;
  bool stops_ = false, saves_ = false;
};

}  // namespace tidepool
