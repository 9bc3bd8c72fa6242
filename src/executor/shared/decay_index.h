// DecayIndex holds runs of equal weight decay, per chunk set.
#pragma once

#include <span>
#include <vector>

#include "kernels/update/update.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

class DecayIndex {
 public:
  DecayIndex(const Plan&, const ModelGraph&);
  std::span<const DecaySegment> of(u32 window, u32 cut) const { return runs_[window][cut]; }

 private:
  std::vector<std::vector<std::vector<DecaySegment>>> runs_;  // [window][cut]
};

}  // namespace tidepool
