// Estimates how long kernels take on a device from its rates: a roofline per kernel, summed.
//
//   product   its flops / (best product rate x block_efficiency x filled share of the device), or its
//             bytes / memory_rate, whichever is longer
//   the rest  its bytes / memory_rate, or its flops / the fp32 rate, whichever is longer
#pragma once

#include <span>

#include "tidepool/chunk.h"
#include "tidepool/kernel_cost.h"
#include "tidepool/machine.h"

namespace tidepool {

// RETURNS: the best rate of matrix products on this device in this precision, in flops per second.
double matmul_rate(const Machine&, Precision);

// RETURNS: true for a GPU whose bf16 products are no faster than its fp32 products; bf16 training is refused
// there.
bool lacks_bf16(const Machine&);

// RETURNS: the share of `processors` that work, averaged over a product of [m, n] outputs: outputs are cut
// into tiles, tiles run in waves of one per processor. Assumes the best tile size that libraries have, so the
// share is well below 1 only if there are too few outputs. 1 if processors is 0.
// NVIDIA, "Matrix Multiplication Background User's Guide", Dimension Quantization Effects.
double filled_share(u64 m, u64 n, u32 processors);

// RETURNS: the time of kernels run one after the other. Launches are not counted: they are queued ahead.
double kernel_seconds(const KernelCost&, const Machine&, Precision);
double kernel_seconds(std::span<const KernelCost>, const Machine&, Precision);

// RETURNS: the block_efficiency at which the kernels take `seconds`, clamped to 0.01 ... 1.
double efficiency_of(std::span<const KernelCost>, double seconds, Machine, Precision);

}  // namespace tidepool
