// Small vector loops over rows that several operations share. Single-threaded; n is in elements;
// rows may overlap only where they are the same row.
#pragma once

#include "kernels/values.h"

namespace tidepool::rows {

void add(float* y, const float* x, u64 n);                  // y += x
void sum(const float* a, const float* b, float* y, u64 n);  // y = a + b
void scale(float* y, float factor, u64 n);                  // y *= factor
void widen(const u16* x, Precision, float* y, u64 n);       // bf16 or fp16

// y = x or y += x: how a finished product joins its accumulator.
void store(float* y, const float* x, u64 n, bool accumulate);

// total[c] = sum over r of x[r * stride + c], c < columns. Groups of 64 rows are summed on their
// own first, which bounds rounding; the order is fixed. partial: [columns] of scratch.
void column_sums(const float* x, u64 rows, u64 columns, u64 stride, float* total, float* partial);

// The tensor itself if it is fp32, else widened into `scratch` [n].
const float* widened(Param, u64 n, float* scratch);

}  // namespace tidepool::rows
