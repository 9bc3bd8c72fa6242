// GPU memory of matrix products beside their arrays. Needs no CUDA: plans are made without it.
#pragma once

#include "base/types.h"

namespace tidepool {

// Taken once per device. The library's part is the demand of its fastest algorithms on sm_90; the scratch
// holds a product before its dropout, weights converted to another precision, parts of column sums. Bits
// depend on both sizes, so they are constants.
inline constexpr Bytes cuda_library_workspace{32 * mib}, cuda_matmul_scratch{32 * mib};

}  // namespace tidepool
