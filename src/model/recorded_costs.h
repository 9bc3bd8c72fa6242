// The kernels of a block, in the order in which it runs them: from these come its flops and its predicted
// time.
#pragma once

#include "tidepool/model_graph.h"

namespace tidepool {

struct BlockKernels {
  std::vector<KernelCost> forward, backward, recompute;
};
// Runs the block's code with a CostRecorder. REQUIRES: sizes and windows of graph.blocks[block] are filled
// in.
BlockKernels recorded_kernels(const ModelGraph&, u32 block);

}  // namespace tidepool
