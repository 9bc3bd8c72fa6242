// unpack_cost() counts the work of unpacking frozen matrices.
#pragma once

#include "kernels/unpack/unpack.h"
#include "tidepool/kernel_cost.h"

namespace tidepool {

// In: the range's share of the packed bytes. Out: values, which the product reads as weights, so they count
// as bytes. REQUIRES: a matrix has fewer than 2^34 elements, so that the share does not overflow.
constexpr KernelCost unpack_cost(const Unpack& op) {
  const u64 all = op.matrix.elements(), values = op.count * op.elements;
  if (op.matrix.packing == Packing::none) return {.bytes = 2 * values_bytes(values, op.out.precision)};
  const u64 share = all == 0 ? 0 : div_up(packed_bytes(op.matrix) / 64 * op.elements, all) * 64;
  // A lookup, a product and its rounding.
  return {.vector_flops = 6 * values, .bytes = op.count * share + values_bytes(values, op.out.precision)};
}

}  // namespace tidepool
