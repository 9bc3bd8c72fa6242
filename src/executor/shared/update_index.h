// UpdateIndex holds what updates need to know of a chunk set's tensors: which of them decay, and for rules of
// whole tensors where each lies.
#pragma once

#include <span>
#include <vector>

#include "kernels/update/update.h"
#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

class UpdateIndex {
 public:
  UpdateIndex(const Plan&, const ModelGraph&);
  // Runs of equal weight decay.
  std::span<const DecaySegment> decay_of(u32 window, u32 cut) const { return cuts_[window][cut].decay; }
  // Empty if the chunk set's rule updates elements.
  std::span<const UpdateTensor> tensors_of(u32 window, u32 cut) const { return cuts_[window][cut].tensors; }

 private:
  struct OfCut {
    std::vector<DecaySegment> decay;
    std::vector<UpdateTensor> tensors;
  };
  std::vector<std::vector<OfCut>> cuts_;  // [window][cut]
};

}  // namespace tidepool
