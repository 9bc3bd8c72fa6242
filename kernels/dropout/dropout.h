// Dropout from a counter: whether an element is dropped is a function of the key and the element's
// number only, so recompute, placement and threads cannot change it. Philox4x32-10 (Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include "base/types.h"

namespace tidepool {

struct Dropout {
  float p = 0;  // 0: off, and costs nothing
  u64 seed = 0;
  u64 step = 0;
  u32 micro_batch = 0;  // of the whole step
  u32 tensor = 0;       // which dropout of the model

  bool on() const { return p > 0; }
  float scale() const { return 1.0f / (1.0f - p); }
};

// One keep decision per element, as Philox gives them: 32 random bits each.
u32 dropout_bits(const Dropout&, u64 element);

// y[i] = element first + i is kept ? x[i] / (1 - p) : 0. y may be x.
void dropout_row(const Dropout&, u64 first, const float* x, float* y, u64 n);

}  // namespace tidepool
