// Grouped products on the device: a block finds its expert's rows in the offsets, and multiplies one tile.
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/experts/expert_search.cuh"
#include "kernels/experts/grouped_fma.cuh"
#include "kernels/experts/grouped_host.cuh"

namespace tidepool {
namespace cuda {
namespace {

// A: type of activations. P: type of parameters.
template <class A, class P>
struct Grouped {
  const i32* offsets;
  u32 experts, n, k;
  const A* x;
  const P* weight;
  u64 expert_stride;
  const P* bias;  // or null
  float scale;
  bool accumulate;
  A* y;

  __device__ __forceinline__ TileOutput<A, P> output(const ExpertTile& t, u32 column) const {
    return {.y = y + u64{t.begin} * n + column,
            .stride = n,
            .rows = t.rows,
            .columns = n - column,
            .bias = bias != nullptr ? bias + t.expert * expert_stride + column : nullptr,
            .scale = scale,
            .accumulate = accumulate};
  }
  // Calls fn(tile, first column) for each tile of this block.
  template <class Fn>
  __device__ __forceinline__ void for_tiles(Fn fn) const {
    for (u64 i = blockIdx.y;; i += gridDim.y) {
      const ExpertTile tile = find_expert_tile(offsets, experts, grouped_tile, i);
      if (tile.rows == 0) return;
      fn(tile, blockIdx.x * grouped_tile);
    }
  }
};

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

template <class A, class P>
Grouped<A, P> grouped_of(const GroupedMatmul& op) {
  return {.offsets = op.offsets,
          .experts = op.experts,
          .n = op.n,
          .k = op.k,
          .x = elements<A>(op.x),
          .weight = elements<P>(op.weight),
          .expert_stride = op.expert_stride,
          .bias = elements<P>(op.bias),
          .scale = op.scale,
          .accumulate = op.accumulate,
          .y = elements<A>(op.y)};
}

// Calls fn(transposed, whole).
template <class Fn>
void for_layout(const GroupedMatmul& op, Fn fn) {
  const bool whole = rows_of_vectors(op.k, op.x) && rows_of_vectors(op.n, op.y) &&
                     rows_of_vectors(op.transposed ? op.k : op.n, op.weight) &&
                     op.expert_stride % vector_elements == 0;
  for_bool(op.transposed, [&](auto transposed) { for_bool(whole, [&](auto w) { fn(transposed, w); }); });
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
  for_layout(op, [&](auto transposed, auto whole) {
    if (units == GroupedUnits::fma) {
      for_fma_precision(op.x.precision, [&](auto activation) {
        using A = decltype(activation);
        for_precisions(op.x.precision, op.weight.precision, [&](auto, auto parameter) {
          using P = decltype(parameter);
          if constexpr (std::is_same_v<A, P> || sizeof(P) == 4 || sizeof(A) == 4)
            launch<grouped_fma_kernel<transposed.value, whole.value, A, P>>(shape, stream,
                                                                            grouped_of<A, P>(op));
        });
      });
    } else {
      for_grouped_mma(units, op.x.precision, [&](auto mma) {
        using Mma = decltype(mma);
        using Half = typename Mma::Half;
        for_parameters<Half>(op.x.precision, op.weight.precision, [&](auto parameter) {
          using P = decltype(parameter);
          launch<grouped_tensor_kernel<Mma, transposed.value, whole.value, P>>(shape, stream,
                                                                               grouped_of<Half, P>(op));
        });
      });
    }
  });
}

}  // namespace tidepool
