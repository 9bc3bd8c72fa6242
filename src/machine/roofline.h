// How long kernels take on a device, from what it can do: a roofline per kernel, added up.
//
//   product   its flops / (best of the products x block_efficiency x the share of the device it fills),
//             or its bytes / memory_rate, whichever is longer
//   the rest  its bytes / memory_rate, or its flops / the fp32 rate, whichever is longer
#pragma once

#include <span>

#include "tidepool/chunk.h"
#include "tidepool/kernel_cost.h"
#include "tidepool/machine.h"

namespace tidepool {

// Best matrix products of a device in this precision.
double matmul_rate(const Machine&, Precision);

// A GPU whose products of bf16 are no faster than those of fp32 has none: training in bf16 is refused there.
bool lacks_bf16(const Machine&);

// The share of `processors` that work, averaged over a product of [m, n] outputs: outputs are made in
// tiles, tiles in waves of one per processor. With the best of the tile sizes that libraries have, so it is
// well below 1 only where there are too few outputs. 1 if processors is 0.
// NVIDIA, "Matrix Multiplication Background User's Guide", Dimension Quantization Effects.
double filled_share(u64 m, u64 n, u32 processors);

// Kernels run one after the other. Launches are not counted: they are queued ahead.
double kernel_seconds(const KernelCost&, const Machine&, Precision);
double kernel_seconds(std::span<const KernelCost>, const Machine&, Precision);

// The block_efficiency with which the kernels take that long; the nearer of 0.01 and 1 where none does.
double efficiency_of(std::span<const KernelCost>, double seconds, Machine, Precision);

}  // namespace tidepool
