// Costs of a block's kernels, in the order in which it runs them: its flops and its predicted time follow.
#pragma once

#include "tidepool/model_graph.h"

namespace tidepool {

// Runs the code of graph.blocks[block] with a CostRecorder and fills in its kernels and flops.
// REQUIRES: its windows and sizes are filled in.
void record_costs(ModelGraph&, u32 block);

}  // namespace tidepool
