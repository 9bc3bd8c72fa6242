// sort_tokens() sorts a batch's rows by token, so that the embedding's gradient is summed in one order.
#pragma once

#include <cuda_runtime.h>

#include "base/types.h"

namespace tidepool::cuda {

// Writes order = (token << 32 | row) of all rows, ascending. order: [rows]. The kernel traps on a token at or
// above the vocabulary.
void sort_tokens(const i32* tokens, u32 rows, u32 vocabulary, u64* order, cudaStream_t);

}  // namespace tidepool::cuda
