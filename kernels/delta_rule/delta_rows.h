// Vector loops over rows of the gated delta rule. Single-threaded; n is in elements.
#pragma once

#include "base/types.h"

namespace tidepool::delta_rows {

float dot(const float* a, const float* b, u64 n);
void add_scaled(float* y, const float* x, float factor, u64 n);      // y += factor x
void scaled(const float* x, float factor, float* y, u64 n);          // y = factor x
void multiply(const float* a, const float* b, float* y, u64 n);      // y = a b; y may be a or b
void multiply_add(float* y, const float* a, const float* b, u64 n);  // y += a b
void decays(float* sums, float g, float* y, u64 n);                  // sums += g; y = e^sums

void silu(const float* x, float* y, u64 n);                             // y may be x
void silu_backward(const float* x, const float* dy, float* dx, u64 n);  // dx may be dy

// y = weight rstd x silu(z)
void gated_norm(const float* x, float rstd, const float* weight, const float* z, float* y, u64 n);
struct GatedNormRow {
  const float *x, *weight, *z, *dy;
  float rstd;
  float *dx, *dz;
  float* dweight;  // added to
};
void gated_norm_backward(const GatedNormRow&, u64 n);

// h = x silu(z)
void silu_gated(const float* x, const float* z, float* h, u64 n);
// y = weight rstd h
void scaled_by(const float* h, float rstd, const float* weight, float* y, u64 n);
// With n = rstd h: dh = rstd (dy weight - n mean(dy weight n)); dx = dh silu(z); dz = dh x silu'(z).
struct GroupNormRow {
  const float *x, *z, *h, *weight, *dy;
  float rstd;
  float *dx, *dz;
  float* dweight;  // added to
};
void group_norm_backward(const GroupNormRow&, u64 n);

}  // namespace tidepool::delta_rows
