// Which ops hand the same work to a GPU in every step, and which of those may be so short that handing it
// over takes longer than doing it: these are CUDA graphs (executor/cuda/op_graphs.h). Needs no CUDA: plans
// for GPUs are made without one, and leave room for the graphs.
#pragma once

#include "tidepool/model_graph.h"

namespace tidepool {

// An op that takes a GPU longer is handed over plainly. 25 launches of 4 us are 0.1 ms of the host: above
// twice that it is ahead all the same. What events measure holds the host's gaps too, so less would shut out
// ops whose kernels are shortest.
inline constexpr Nanos short_op_max{200'000};

// Whether forward and backward of the block launch the same kernels with the same arguments in each step, so
// that an op of a plan has the same launches whenever it runs.
bool launches_repeat(const ModelGraph&, const Block&);

// Whether a GPU might run forward of any such block in short_op_max. False is certain, true is not.
bool may_have_short_ops(const ModelGraph&);

}  // namespace tidepool
