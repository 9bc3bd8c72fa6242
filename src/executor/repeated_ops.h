// Finds ops that launch the same GPU work in every step, and among them those so short that launching takes
// longer than running: these become CUDA graphs (executor/cuda/op_graphs.h). Needs no CUDA: plans for GPUs
// are also made on machines without it, and reserve room for the graphs.
#pragma once

#include "tidepool/model_graph.h"

namespace tidepool {

// Longer ops are launched without a graph. 25 launches of 4 us take the host 0.1 ms; above twice that, the
// host is ahead of the GPU anyway. Times measured by events include the host's gaps, so a lower limit would
// exclude the ops with the shortest kernels.
inline constexpr Nanos short_op_max{200'000};

// RETURNS: true if forward and backward of the block launch the same kernels with the same arguments in each
// step, so that a plan's op has the same launches whenever it runs.
bool launches_repeat(const ModelGraph&, const Block&);

// RETURNS: false if no GPU can run the forward of any such block in short_op_max; true if a GPU might.
bool may_have_short_ops(const ModelGraph&);

}  // namespace tidepool
