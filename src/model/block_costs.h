// The kernels of a block, in the order in which it runs them: from these come its flops and its predicted
// time. Written beside the block code by hand; a test counts one layer on paper.
#pragma once

#include "tidepool/model_graph.h"

namespace tidepool {

struct BlockKernels {
  std::vector<KernelCost> forward, backward, recompute;
};
void set_kernels(Block&, BlockKernels);

// Of an embedding or a head; of a layer.
void set_costs(Block&, const ModelGraph&);
void set_gpt2_layer_costs(Block&, const ModelGraph&);
void set_llama_layer_costs(Block&, const ModelGraph&);

}  // namespace tidepool
