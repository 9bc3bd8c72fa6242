// update_units() divides a window where cuts must end.
#pragma once

#include <vector>

#include "tidepool/model_graph.h"

namespace tidepool {

// Whole tensors that one rule updates, side by side in a window. No cut crosses the border of a unit.
struct UpdateUnit {
  u64 begin = 0, elements = 0;  // in the window, padding included
  u8 rule = 0;                  // ModelGraph::rules

  u64 end() const { return begin + elements; }
};

// RETURNS: the window's units in order; they cover it. Tensors of an elementwise rule that follow each other
// are one unit. So are tensors of another rule that follow each other unaligned: those that one product
// reads, vectors and adapters.
std::vector<UpdateUnit> update_units(const ModelGraph&, const Window&);

}  // namespace tidepool
