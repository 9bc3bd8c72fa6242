// Small vector loops over rows that several operations share. Single-threaded; n is in elements; rows may
// overlap only if they are the same row.
#pragma once

#include "kernels/values.h"

namespace tidepool::rows {

void add(float* y, const float* x, u64 n);                  // y += x
void sum(const float* a, const float* b, float* y, u64 n);  // y = a + b
void scale(float* y, float factor, u64 n);                  // y *= factor
void widen(const u16* x, Precision, float* y, u64 n);       // bf16 or fp16

// y = x or y += x: stores a finished product in its accumulator.
void store(float* y, const float* x, u64 n, bool accumulate);

// y[c, r] = x[r, c]. x: [rows, columns] with `stride` elements from row to row. y: [columns, rows].
void transpose(const float* x, u64 stride, u64 rows, u64 columns, float* y);

// total[c] = sum over r of x[r * stride + c], c < columns. Groups of 64 rows are summed separately first,
// which bounds rounding errors; the order is fixed. partial: [columns] of scratch.
void column_sums(const float* x, u64 rows, u64 columns, u64 stride, float* total, float* partial);

// RETURNS: the tensor itself if it is fp32, otherwise the tensor widened into `scratch` [n].
const float* widened(Param, u64 n, float* scratch);
// RETURNS: the tensor plus `offset`, in `scratch` [n]; with offset 0 as widened().
const float* widened_sum(Param, float offset, u64 n, float* scratch);

}  // namespace tidepool::rows
