// Matrix products that a probe uses as examples of large ones.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace tidepool {

struct Product {
  const char* name;  // "2048 x 3072 x 768"
  u32 m, n, k;

  double flops() const { return 2.0 * m * n * k; }
};
inline constexpr Product products[] = {{"2048 x 3072 x 768", 2048, 3072, 768},
                                       {"512 x 4096 x 1024", 512, 4096, 1024}};

// ProductLoad holds the operands of one product in both precisions.
class ProductLoad {
 public:
  explicit ProductLoad(const Product&);
  void run(Kernels&, Precision);

 private:
  const Product product_;
  std::vector<float> x_, weight_, y_;  // [M, K], [K, N], [M, N]
  std::vector<u16> half_weight_;       // [K, N], bf16
};

// The product of two matrices [side, side] that lie side by side; the result lies behind them.
Matmul square_product(u32 side, Values at);

}  // namespace tidepool
