// record_costs lists the costs of a block's kernels in the order in which they run. The block's flops and
// predicted time follow from the list.
#pragma once

#include "tidepool/model_graph.h"

namespace tidepool {

// Runs the code of graph.blocks[block] with a CostRecorder and fills in its kernels and flops.
// REQUIRES: the block's windows and sizes are filled in.
void record_costs(ModelGraph&, u32 block);

// Records what streamed updates of the model's matrices cost on devices, in graph.matrix_costs.
// REQUIRES: the graph has its windows and rules.
void record_matrix_costs(ModelGraph& graph);

}  // namespace tidepool
