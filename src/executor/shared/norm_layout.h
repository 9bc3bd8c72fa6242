// NormLayout places the partial sums of the gradient's norm, for any division of windows between devices.
#pragma once

#include <vector>

#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

// There is one fp64 partial per granule (norm_granule_elements) of each window, in window order. Granules
// that several devices share are summed from their cells (norm_cell_elements) instead.
class NormLayout {
 public:
  NormLayout(const Plan&, const ModelGraph&);

  // RETURNS: the outputs of a gradient op for elements [begin, begin + elements) of a window: cells of a
  // shared granule, whole granules, cells of another shared granule.
  struct Run {
    u64 begin = 0, elements = 0;  // range in the window
    u64 first = 0;                // first partial, or first cell
    bool cells = false;
  };
  struct Runs {
    Run run[3];
    u32 count = 0;
  };
  Runs runs_of(u32 window, u64 begin, u64 elements) const;

  u64 partials() const { return shared_.size(); }
  u64 cells() const { return cells_; }
  // By partial: its first cell, or none if one device owns the granule.
  const std::vector<u32>& shared() const { return shared_; }

 private:
  struct Part {
    u64 begin = 0, end = 0;
    u64 whole_begin = 0, whole_end = 0;  // granules fully inside the part; other parts share the rest
  };
  Part part_of(u32 window, u64 begin, u64 elements) const;

  const ModelGraph& graph_;
  std::vector<u64> first_partial_;  // [window]
  std::vector<u32> shared_;
  u64 cells_ = 0;
};

}  // namespace tidepool
