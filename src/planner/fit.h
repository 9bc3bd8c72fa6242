// Fit says whether a job fits. It asks candidates, which are plans of the tiers and do not depend on the
// job's budgets: each has needs of its own, and a job fits if one candidate needs no more of any tier than
// its budget. So a job that fits still fits with larger budgets, whatever choices are made inside a candidate
// (docs/decisions/0032-a-job-fits-by-needs-without-budgets.md).
#pragma once

#include <optional>
#include <vector>

#include "planner/fit_shape.h"

namespace tidepool {

class Fit {
 public:
  // Ignores the budgets in the options.
  // REQUIRES: both arguments outlive this object; the options are possible, and a step of this size can be
  // planned.
  Fit(const ModelGraph&, const PlanOptions&);
  Fit(const Fit&) = delete;

  // RETURNS: a candidate that needs no more than `budgets`; none: the job does not fit, or `work` ended the
  // search.
  std::optional<TierCandidate> within(const Budgets&, SearchWork* = nullptr);

  // RETURNS: the smallest budgets between `had` and `most` that fit some candidate, rounded as a config
  // writes them. A device's bytes count most and the disk's least. None: no candidate fits `most`, or `work`
  // ended the search before one was found.
  std::optional<Budgets> nearest(const Budgets& had, const Budgets& most, SearchWork* = nullptr);

 private:
  void search(FitSearch&, SearchWork*);
  bool has_no_room(const Budgets&) const;

  const ModelGraph& graph_;
  const PlanOptions options_;
  struct HeldShape {
    FitShape shape;
    Bytes held;  // by all tiers together, in any candidate
  };
  std::vector<HeldShape> shapes_;
};

// RETURNS: an error that names the tiers that are short and the smallest budgets that fit.
Error does_not_fit(Fit&, const PlanOptions&);

}  // namespace tidepool
