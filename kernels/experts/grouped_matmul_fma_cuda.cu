// Grouped products with fused multiply-adds: fp32, and bf16 on GPUs whose tensor cores do not take it.
#include "kernels/cuda/launch.h"
#include "kernels/experts/grouped_fma.cuh"
#include "kernels/experts/grouped_matmul.cuh"

namespace tidepool::cuda {
namespace {

template <bool transposed, bool whole, class A, class P>
__global__ void __launch_bounds__(grouped_threads) grouped_fma_kernel(Grouped<A, P> op) {
  op.for_tiles([&](const ExpertTile& t, u32 column) {
    const A* const x = op.x + u64{t.begin} * op.k;
    const P* const weight =
        op.weight + t.expert * op.expert_stride + (transposed ? u64{column} * op.k : column);
    FmaSums d;
    stream_fma(d, op.k, [&](FmaTile& left, FmaTile& right, u32 k) {
      load_fma_transposed<whole>(left, x + k, op.k, t.rows, op.k - k);
      if constexpr (transposed) {
        load_fma_transposed<whole>(right, weight + k, op.k, op.n - column, op.k - k);
      } else {
        load_fma<whole>(right, weight + u64{k} * op.n, op.n, op.k - k, op.n - column);
      }
    });
    store_fma<whole>(d, op.output(t, column));
  });
}

}  // namespace

void grouped_matmul_fma(const GroupedMatmul& op, const LaunchShape& shape, cudaStream_t stream) {
  for_layout(op, [&](auto transposed, auto whole) {
    for_fma_precision(op.x.precision, [&](auto activation) {
      using A = decltype(activation);
      for_precisions(op.x.precision, op.weight.precision, [&](auto, auto parameter) {
        using P = decltype(parameter);
        if constexpr (std::is_same_v<A, P> || sizeof(P) == 4 || sizeof(A) == 4)
          launch<grouped_fma_kernel<transposed.value, whole.value, A, P>>(shape, stream,
                                                                          grouped_of<A, P>(op));
      });
    });
  });
}

}  // namespace tidepool::cuda
