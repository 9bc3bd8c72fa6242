// Kernels that matrix products need beside the library. All run on one stream, without waiting.
#pragma once

#include <cuda_runtime.h>

#include "kernels/dropout/dropout.h"
#include "kernels/values.h"

namespace tidepool::cuda {

// Converts `from` [rows, columns], with `from_stride` elements from row to row, to packed `to` [rows,
// columns].
void convert_rows(ConstValues from, u64 from_stride, u32 rows, u32 columns, Values to, cudaStream_t);

// y = residual + dropout(x), starting with dropout's element `first` (a multiple of 8). y may be residual.
void add_dropped(const Dropout&, u64 first, ConstValues x, ConstValues residual, Values y, u64 n,
                 cudaStream_t);

// sums = column sums of x [rows, columns], or sums += them. parts: [column_sums_parts(rows), columns] of
// scratch.
void column_sums(ConstValues x, u32 rows, u32 columns, float* parts, float* sums, bool accumulate,
                 cudaStream_t);

}  // namespace tidepool::cuda
