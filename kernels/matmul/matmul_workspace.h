// What matrix products take of a GPU's memory beside their arrays. Needs no CUDA: plans are made without.
#pragma once

#include "base/types.h"

namespace tidepool {

// Taken once per device. The library's part is what its fastest algorithms ask for on sm_90; the scratch
// holds a product before its dropout, weights in another precision, parts of column sums. Numbers depend on
// both sizes, so they are constants.
inline constexpr Bytes cuda_library_workspace{32 * mib}, cuda_matmul_scratch{32 * mib};

}  // namespace tidepool
