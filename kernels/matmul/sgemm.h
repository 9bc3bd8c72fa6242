// Sgemm is one single-threaded call into the matrix library.
#pragma once

#include "base/types.h"

namespace tidepool {

struct Sgemm {
  bool transpose_a = false, transpose_b = false;
  u32 m = 0, n = 0, k = 0;
  const float* a = nullptr;  // [M, K] or transposed
  u32 lda = 0;
  const float* b = nullptr;  // [K, N] or transposed
  u32 ldb = 0;
  float* c = nullptr;  // [M, N] = scale a b
  u32 ldc = 0;
  float scale = 1;
  bool accumulate = false;  // c += scale a b
};
void sgemm(const Sgemm&);

}  // namespace tidepool
