// KernelCost says what one kernel costs on any device. Predicted times need nothing else about the kernel.
#pragma once

#include "base/types.h"

namespace tidepool {

// Elements and bytes are read and written once each, as if caches were perfect.
struct KernelCost {
  u64 m = 0, n = 0, k = 0;  // one product [m, k] x [k, n]; 0: no product, or many small ones
  u64 groups = 0;           // if not 0: instead of one product, so many of [m / groups, k] x [k, n] at once
  u64 product_flops = 0;
  bool fp32_products = false;  // in every precision of a run
  u64 vector_flops = 0;        // everything else: exponentials, norms, sums
  // Activations inside a block, as wide as the device computes: 16 bits in 16-bit runs on a GPU, 32 bits on a
  // CPU.
  u64 elements = 0;
  u64 bytes = 0;  // as planned: weights, fp32 gradients, the fp32 stream between blocks

  constexpr u64 flops() const { return product_flops + vector_flops; }
  bool operator==(const KernelCost&) const = default;
};

}  // namespace tidepool
