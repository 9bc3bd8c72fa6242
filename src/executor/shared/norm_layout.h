// Where partial sums of the gradient's norm lie, however windows are shared between devices.
#pragma once

#include <vector>

#include "tidepool/model_graph.h"
#include "tidepool/plan.h"

namespace tidepool {

// One fp64 per granule (norm_granule_elements) of each window, in order of window. Granules of which
// several devices own parts are summed from their cells (norm_cell_elements) instead.
class NormLayout {
 public:
  NormLayout(const Plan&, const ModelGraph&);

  // What a gradient op of elements [begin, begin + elements) of a window makes: cells of a granule that
  // it shares, whole granules, cells again.
  struct Run {
    u64 begin = 0, elements = 0;  // of the window
    u64 first = 0;                // of partials, or of cells
    bool cells = false;
  };
  struct Runs {
    Run run[3];
    u32 count = 0;
  };
  Runs runs_of(u32 window, u64 begin, u64 elements) const;

  u64 partials() const { return shared_.size(); }
  u64 cells() const { return cells_; }
  // By partial: its first cell, or none.
  const std::vector<u32>& shared() const { return shared_; }

 private:
  struct Part {
    u64 begin = 0, end = 0;
    u64 whole_begin = 0, whole_end = 0;  // granules that lie within it; the others it shares with other parts
  };
  Part part_of(u32 window, u64 begin, u64 elements) const;

  const ModelGraph& graph_;
  std::vector<u64> first_partial_;  // [window]
  std::vector<u32> shared_;
  u64 cells_ = 0;
};

}  // namespace tidepool
