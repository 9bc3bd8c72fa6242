#include "probe/products.h"

#include "kernels/gradient/gradient.h"

namespace tidepool {

ProductLoad::ProductLoad(const Product& p)
    : product_(p),
      x_(u64{p.m} * p.k, 0.5f),
      weight_(u64{p.k} * p.n, 0.25f),
      y_(u64{p.m} * p.n, 0.0f),
      half_weight_(weight_.size(), bf16_from_float(0.25f)) {}

void ProductLoad::run(Kernels& kernels, Precision precision) {
  const void* weight =
      precision == Precision::bf16 ? static_cast<const void*>(half_weight_.data()) : weight_.data();
  kernels.matmul({.m = product_.m,
                  .n = product_.n,
                  .k = product_.k,
                  .x = x_.data(),
                  .weight = {static_cast<const std::byte*>(weight), precision},
                  .bias = {},
                  .y = y_.data(),
                  .dropout = {}});
}

Matmul square_product(u32 side, Values at) {
  const u64 elements = u64{side} * side;
  return {.m = side,
          .n = side,
          .k = side,
          .x = at,
          .weight = at.at(elements),
          .bias = {},
          .y = at.at(2 * elements),
          .dropout = {}};
}

}  // namespace tidepool
