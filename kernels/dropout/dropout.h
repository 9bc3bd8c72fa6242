// Dropout from a counter: the decision for an element is a function of the key and the element's number only,
// so recompute, placement and threads cannot change it. Philox4x32-10 (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include "base/types.h"

namespace tidepool {

struct Dropout {
  float p = 0;       // 0: nothing drops out
  float factor = 1;  // on what is kept
  u64 seed = 0;
  u64 step = 0;
  u32 micro_batch = 0;  // number within the whole step
  u32 tensor = 0;       // number of the dropout within the model

  // False: no change, and no cost.
  bool on() const { return p > 0 || factor != 1; }
  float scale() const { return factor / (1.0f - p); }
};

// RETURNS: the 32 random bits of an element, from Philox; they decide whether it is kept.
u32 dropout_bits(const Dropout&, u64 element);

// y[i] = element first + i is kept ? x[i] factor / (1 - p) : 0. y may be x.
void dropout_row(const Dropout&, u64 first, const float* x, float* y, u64 n);

// Uniform noise from the same counter: an element's is a function of the key and its number only.
struct UniformNoise {
  float magnitude = 0;  // from -magnitude to magnitude; 0: none
  Dropout key;          // its seed, step, micro-batch and tensor

  bool on() const { return magnitude > 0; }
};
// y[i] += noise of element first + i
void add_noise_row(const UniformNoise&, u64 first, float* y, u64 n);
// RETURNS: the noise of an element with these bits.
constexpr float noise_of(u32 bits, float magnitude) {
  return magnitude * (static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f);
}

}  // namespace tidepool
