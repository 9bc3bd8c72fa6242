// Fit says whether a job fits. It asks a family of ways to lie in the tiers that does not depend on budgets:
// each way has needs of its own, and a job fits if one way needs no more of any tier than its budget. So a
// job that fits still fits with larger budgets, whatever choices are made inside a way
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

  // RETURNS: a way that needs no more than `budgets`; none: the job does not fit, or `work` ended the search.
  std::optional<Way> within(const Budgets&, SearchWork* = nullptr);

  // RETURNS: the smallest budgets between `had` and `most` that fit some way, rounded as a config writes
  // them. A device's bytes count most and the disk's least. None: no way fits `most`, or `work` ended the
  // search before one was found.
  std::optional<Budgets> nearest(const Budgets& had, const Budgets& most, SearchWork* = nullptr);

 private:
  void search(FitSearch&, SearchWork*);
  bool has_no_room(const Budgets&) const;

  const ModelGraph& graph_;
  const PlanOptions options_;
  struct Candidate {
    FitShape shape;
    Bytes held;  // by all tiers together, in any way
  };
  std::vector<Candidate> shapes_;
};

// RETURNS: an error that names the tiers that are short and the smallest budgets that fit.
Error does_not_fit(Fit&, const PlanOptions&);

}  // namespace tidepool
