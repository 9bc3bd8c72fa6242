// The kernels of a block, in the order in which it runs them: from these come its flops and its predicted
// time. Written beside the block code by hand; a test counts one layer on paper.
#pragma once

#include "tidepool/model_graph.h"

namespace tidepool {

// Sets the kernels and flops of a block whose kind is set.
void set_costs(Block&, const ModelGraph&);

}  // namespace tidepool
