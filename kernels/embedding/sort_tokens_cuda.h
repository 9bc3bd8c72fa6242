#pragma once

#include <cuda_runtime.h>

#include "base/types.h"

namespace tidepool::cuda {

// order = (token << 32 | row) of all rows, ascending. order: [rows]. A token at or above the vocabulary
// traps.
void sort_tokens(const i32* tokens, u32 rows, u32 vocabulary, u64* order, cudaStream_t);

}  // namespace tidepool::cuda
