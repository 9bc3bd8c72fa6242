// Gradients of grouped products on the device. A block has one tile of one expert's gradient, and sums all of
// the expert's rows in order, so nothing is split. A pass of its own sums biases.
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/experts/expert_search.cuh"
#include "kernels/experts/grouped_fma.cuh"
#include "kernels/experts/grouped_host.cuh"

namespace tidepool {
namespace cuda {
namespace {

// dw [rows, columns] = left^T right; both lie by an expert's rows.
template <class T>
struct GroupedGradient {
  const i32* offsets;
  const T* left;   // [M, rows]
  const T* right;  // [M, columns]
  u32 rows, columns;
  float* dw;
  u64 expert_stride;
  bool accumulate;

  __device__ __forceinline__ TileOutput<float, float> output(u32 row, u32 column) const {
    return {.y = dw + blockIdx.z * expert_stride + u64{row} * columns + column,
            .stride = columns,
            .rows = rows - row,
            .columns = columns - column,
            .bias = nullptr,
            .scale = 1,
            .accumulate = accumulate};
  }
  // Calls fn(left, right, count, row, column): the expert's rows from the tile's first columns on. No-op if
  // nothing would be added.
  template <class Fn>
  __device__ __forceinline__ void for_tile(Fn fn) const {
    const u32 begin = static_cast<u32>(offsets[blockIdx.z]);
    const u32 count = static_cast<u32>(offsets[blockIdx.z + 1]) - begin;
    if (count == 0 && accumulate) return;
    const u32 row = blockIdx.y * grouped_tile, column = blockIdx.x * grouped_tile;
    fn(left + u64{begin} * rows + row, right + u64{begin} * columns + column, count, row, column);
  }
};

template <class Mma, bool whole>
__global__ void __launch_bounds__(grouped_threads)
    gradient_tensor_kernel(GroupedGradient<typename Mma::Half> op) {
  if constexpr (Mma::is_here()) {
    using Half = typename Mma::Half;
    constexpr bool wide = Mma::units == AttentionUnits::tensor;
    constexpr u32 stages = grouped_stages(wide ? GroupedUnits::tensor : GroupedUnits::tensor_sm70);
    constexpr u32 left_elements = wide ? grouped_wide_elements : grouped_tall_elements;
    Half* const left_tiles = dynamic_shared<Half>();
    Half* const right_tiles = left_tiles + stages * left_elements;
    op.for_tile([&](const Half* left, const Half* right, u32 count, u32 row, u32 column) {
      GroupedSums d;
      stream_stages<stages>(
          d, (count + grouped_step - 1) / grouped_step,
          [&](u32 stage, u32 step) {
            const u32 first = step * grouped_step;
            const FactorRows<Half> of_left = {left + u64{first} * op.rows, op.rows, count - first,
                                              op.rows - row};
            if constexpr (wide) {
              load_factor<grouped_tile, grouped_step, whole>(left_tiles + stage * left_elements, of_left);
            } else {
              load_factor_transposed<whole>(left_tiles + stage * left_elements, of_left);
            }
            load_factor<grouped_tile, grouped_step, whole>(
                right_tiles + stage * grouped_wide_elements,
                FactorRows<Half>{right + u64{first} * op.columns, op.columns, count - first,
                                 op.columns - column});
          },
          [&](u32 stage) {
            using Left = std::conditional_t<wide, WideLeft<Half>, typename Mma::template Left<grouped_step>>;
            add_stage<Mma, Left, false>(d, left_tiles + stage * left_elements,
                                        right_tiles + stage * grouped_wide_elements);
          });
      store_sums<Mma, false, whole>(d, op.output(row, column));
    });
  }
}

template <bool whole, class T>
__global__ void __launch_bounds__(grouped_threads) gradient_fma_kernel(GroupedGradient<T> op) {
  op.for_tile([&](const T* left, const T* right, u32 count, u32 row, u32 column) {
    FmaSums d;
    stream_fma(d, count, [&](FmaTile& left_tile, FmaTile& right_tile, u32 first) {
      load_fma<whole>(left_tile, left + u64{first} * op.rows, op.rows, count - first, op.rows - row);
      load_fma<whole>(right_tile, right + u64{first} * op.columns, op.columns, count - first,
                      op.columns - column);
    });
    store_fma<whole>(d, op.output(row, column));
  });
}

template <class T>
struct GroupedBias {
  const i32* offsets;
  u32 n;
  const T* dy;
  float* dbias;
  u64 expert_stride;
  const float* factors;
  const i32* slots;
  bool accumulate;
};

template <bool whole, class T>
__global__ void __launch_bounds__(grouped_bias_columns) grouped_bias_gradient_kernel(GroupedBias<T> op) {
  BLOCK_SHARED(float[grouped_bias_threads_y][grouped_bias_columns], sums);
  const u32 begin = static_cast<u32>(op.offsets[blockIdx.y]),
            end = static_cast<u32>(op.offsets[blockIdx.y + 1]);
  if (begin == end && op.accumulate) return;
  const u32 column = blockIdx.x * grouped_bias_columns + vector_elements * threadIdx.x;
  float total[8] = {}, v[8];
  if (column < op.n) {
    for (u32 row = begin + threadIdx.y; row < end; row += grouped_bias_threads_y) {
      const float factor = op.factors != nullptr ? op.factors[op.slots[row]] : 1.0f;
      load8<whole>(op.dy + u64{row} * op.n, column, op.n, v);
      for (u32 i = 0; i < 8; ++i) total[i] = fmaf(v[i], factor, total[i]);
    }
  }
  for (u32 i = 0; i < 8; ++i) sums[threadIdx.y][vector_elements * threadIdx.x + i] = total[i];
  __syncthreads();
  const u32 thread = threadIdx.y * warp_threads + threadIdx.x;  // 0 ... 255: one column each
  const u32 own = blockIdx.x * grouped_bias_columns + thread;
  if (own >= op.n) return;
  float sum = 0;
  for (u32 y = 0; y < grouped_bias_threads_y; ++y) sum += sums[y][thread];
  float& out = op.dbias[blockIdx.y * op.expert_stride + own];
  out = op.accumulate ? out + sum : sum;
}

template <class T>
GroupedGradient<T> gradient_of(const GroupedWeightGradient& op) {
  return {.offsets = op.offsets,
          .left = elements<T>(op.transposed ? op.dy : op.x),
          .right = elements<T>(op.transposed ? op.x : op.dy),
          .rows = op.transposed ? op.n : op.k,
          .columns = op.transposed ? op.k : op.n,
          .dw = op.dw,
          .expert_stride = op.expert_stride,
          .accumulate = op.accumulate};
}

void launch_bias_gradient(const GroupedWeightGradient& op, cudaStream_t stream) {
  for_bool(rows_of_vectors(op.n, op.dy), [&](auto whole) {
    for_precision(op.dy.precision, [&](auto type) {
      using T = decltype(type);
      launch<grouped_bias_gradient_kernel<whole.value, T>>(grouped_bias_gradient_launch(op.n, op.experts),
                                                           stream,
                                                           GroupedBias<T>{.offsets = op.offsets,
                                                                          .n = op.n,
                                                                          .dy = elements<T>(op.dy),
                                                                          .dbias = op.dbias,
                                                                          .expert_stride = op.expert_stride,
                                                                          .factors = op.bias_factors,
                                                                          .slots = op.slots,
                                                                          .accumulate = op.accumulate});
    });
  });
}

}  // namespace
}  // namespace cuda

void grouped_weight_gradient_cuda(const GroupedWeightGradient& op, cudaStream_t stream) {
  using namespace cuda;
  require(op.n > 0 && op.k > 0, "grouped_weight_gradient: empty products");
  require(op.bias_factors == nullptr || op.slots != nullptr, "grouped_weight_gradient: factors need slots");
  if (op.experts == 0) return;
  check_same_precision({op.x, op.dy});
  const GroupedUnits units = grouped_units_here(op.x.precision);
  const LaunchShape shape =
      grouped_gradient_launch(op.transposed ? op.n : op.k, op.transposed ? op.k : op.n, op.experts, units);
  const bool whole = rows_of_vectors(op.k, op.x) && rows_of_vectors(op.n, op.dy) &&
                     rows_of_vectors(op.expert_stride, ConstValues(static_cast<const float*>(op.dw)));
  for_bool(whole, [&](auto w) {
    if (units == GroupedUnits::fma) {
      for_fma_precision(op.x.precision, [&](auto type) {
        using T = decltype(type);
        launch<gradient_fma_kernel<w.value, T>>(shape, stream, gradient_of<T>(op));
      });
    } else {
      for_grouped_mma(units, op.x.precision, [&](auto mma) {
        using Mma = decltype(mma);
        launch<gradient_tensor_kernel<Mma, w.value>>(shape, stream, gradient_of<typename Mma::Half>(op));
      });
    }
  });
  if (op.dbias != nullptr) launch_bias_gradient(op, stream);
}

}  // namespace tidepool
