// run_orthogonalize() orthogonalizes the matrices of a chunk set's direction, on any device that the kernels
// use.
#pragma once

#include "executor/shared/block_op.h"

namespace tidepool {

void run_orthogonalize(const BlockOpParts&, Kernels&, const Issue&);

}  // namespace tidepool
