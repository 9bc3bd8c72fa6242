// Grouped products on the device, on tensor cores: a block finds its expert's rows in the offsets, and
// multiplies one tile.
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/experts/grouped_matmul.cuh"

namespace tidepool {
namespace cuda {
namespace {

template <class Mma, bool transposed, bool whole, class P>
__global__ void __launch_bounds__(grouped_threads) grouped_tensor_kernel(Grouped<typename Mma::Half, P> op) {
  if constexpr (Mma::is_here()) {
    using Half = typename Mma::Half;
    constexpr u32 stages = grouped_stages(Mma::units == AttentionUnits::tensor ? GroupedUnits::tensor
                                                                               : GroupedUnits::tensor_sm70);
    constexpr u32 right_elements = transposed ? grouped_tall_elements : grouped_wide_elements;
    Half* const left = dynamic_shared<Half>();
    Half* const right = left + stages * grouped_tall_elements;
    op.for_tiles([&](const ExpertTile& t, u32 column) {
      const Half* const x = op.x + u64{t.begin} * op.k;
      const P* const weight =
          op.weight + t.expert * op.expert_stride + (transposed ? u64{column} * op.k : column);
      GroupedSums d;
      stream_stages<stages>(
          d, (op.k + grouped_step - 1) / grouped_step,
          [&](u32 stage, u32 step) {
            const u32 k = step * grouped_step;
            load_factor<grouped_step, grouped_tile, whole>(left + stage * grouped_tall_elements,
                                                           FactorRows<Half>{x + k, op.k, t.rows, op.k - k});
            if constexpr (transposed) {
              load_factor<grouped_step, grouped_tile, whole>(
                  right + stage * right_elements, FactorRows<P>{weight + k, op.k, op.n - column, op.k - k});
            } else {
              load_factor<grouped_tile, grouped_step, whole>(
                  right + stage * right_elements,
                  FactorRows<P>{weight + u64{k} * op.n, op.n, op.k - k, op.n - column});
            }
          },
          [&](u32 stage) {
            if (GroupedWarp().row >= t.rows) return;  // all rows of the warp are past the expert's
            add_stage<Mma, typename Mma::template Left<grouped_step>, transposed>(
                d, left + stage * grouped_tall_elements, right + stage * right_elements);
          });
      store_sums<Mma, transposed, whole>(d, op.output(t, column));
    });
  }
}

// Calls fn(type) for parameters of the activations' type or fp32.
template <class A, class Fn>
void for_parameters(Precision activations, Precision parameters, Fn fn) {
  if (parameters == activations) return fn(A{});
  require(parameters == Precision::fp32, "bf16 and fp16 do not mix");
  fn(float{});
}

}  // namespace
}  // namespace cuda

void grouped_matmul_cuda(const GroupedMatmul& op, cudaStream_t stream) {
  using namespace cuda;
  require(op.n > 0 && op.k > 0, "grouped_matmul: empty products");
  require(!op.accumulate || !op.bias, "grouped_matmul: accumulates without bias only");
  if (op.rows_max == 0 || op.experts == 0) return;
  check_same_precision({op.x, op.y});
  check_same_precision({op.weight, op.bias});
  const GroupedUnits units = grouped_units_here(op.x.precision);
  const LaunchShape shape =
      grouped_matmul_launch({op.rows_max, op.expected_rows, op.experts}, op.n, units, op.transposed);
  if (units == GroupedUnits::fma) return grouped_matmul_fma(op, shape, stream);
  for_layout(op, [&](auto transposed, auto whole) {
    for_grouped_mma(units, op.x.precision, [&](auto mma) {
      using Mma = decltype(mma);
      using Half = typename Mma::Half;
      for_parameters<Half>(op.x.precision, op.weight.precision, [&](auto parameter) {
        using P = decltype(parameter);
        launch<grouped_tensor_kernel<Mma, transposed.value, whole.value, P>>(shape, stream,
                                                                             grouped_of<Half, P>(op));
      });
    });
  });
}

}  // namespace tidepool
