// Fit says whether a job fits. It asks a family of ways to lie in the tiers, and no budget has a part in that
// family: each way has needs of its own, and a job fits if one way needs no more of any tier than there is.
// So what fits still fits with larger budgets, whatever the choices inside a way do
// (docs/decisions/0032-a-job-fits-by-needs-without-budgets.md).
#pragma once

#include <optional>
#include <vector>

#include "planner/fit_shape.h"

namespace tidepool {

class Fit {
 public:
  // Budgets of the options are not looked at. Both must outlive it.
  // REQUIRES: the options are possible, and a step of this size can be planned.
  Fit(const ModelGraph&, const PlanOptions&);
  Fit(const Fit&) = delete;

  // RETURNS: a way that needs no more than `budgets`. None: the job does not fit, or `work` cut the search.
  std::optional<Way> within(const Budgets&, SearchWork* = nullptr);

  // RETURNS: the smallest budgets from `had` up to `most` that a way is content with, as a config says them.
  // A device's bytes count most and the disk's least. None: no way is content with `most`, or `work` cut the
  // search before one was found.
  std::optional<Budgets> nearest(const Budgets& had, const Budgets& most, SearchWork* = nullptr);

 private:
  void search(FitSearch&, SearchWork*);
  bool has_no_room(const Budgets&) const;

  const ModelGraph& graph_;
  const PlanOptions options_;
  struct Candidate {
    FitShape shape;
    Bytes held;  // by all tiers together, whatever the way
  };
  std::vector<Candidate> shapes_;
};

}  // namespace tidepool
