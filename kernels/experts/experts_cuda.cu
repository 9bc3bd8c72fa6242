// Passes that bring tokens to experts and back, on the device. All move each element once, so memory
// bandwidth limits them.
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/experts/expert_search.cuh"
#include "kernels/experts/experts_launch.h"

namespace tidepool {
namespace cuda {
namespace {

// to[at, at + 8) = from[at, at + 8), only below n: bits, whatever they mean.
template <bool whole, class T>
__device__ __forceinline__ void copy8(const T* from, T* to, u64 at, u64 n) {
  if constexpr (whole) {
    const auto* source = reinterpret_cast<const uint4*>(from + at);
    auto* target = reinterpret_cast<uint4*>(to + at);
    UNROLL for (u32 i = 0; i < sizeof(T) / 2; ++i) target[i] = source[i];
  } else {
    for (u32 i = 0; i < 8; ++i) {
      if (at + i < n) to[at + i] = from[at + i];
    }
  }
}

template <bool whole, class T>
__global__ void __launch_bounds__(256)
    gather_rows_kernel(const i32* row_count, u32 columns, u32 chosen, const i32* slots, const T* x, T* y) {
  const u64 in_row = div_up(u64{columns}, vector_elements), vectors = static_cast<u32>(*row_count) * in_row;
  for (u64 i = grid_thread(); i < vectors; i += grid_threads()) {
    const u64 row = i / in_row, token = static_cast<u32>(slots[row]) / chosen;
    copy8<whole>(x + token * columns, y + row * columns, i % in_row * vector_elements, columns);
  }
}

template <class T>
struct Combine {
  u32 columns, chosen;
  const i32* places;
  const i32* experts;
  const float* weights;
  bool descending;
  const T* x;
  const float* sum_in;
  float* sum_out;
  const T* residual;
  T* y;
};

// Writes places and weights of the token's choices in the range, in order of experts: each thread counts the
// choices before its own. RETURNS: their number.
template <class T>
__device__ u32 order_choices(const Combine<T>& op, i32* places, float* weights) {
  const u64 first = u64{blockIdx.x} * op.chosen;
  u32 count = 0;
  for (u32 begin = 0; begin < op.chosen; begin += blockDim.x) {
    const u32 j = begin + threadIdx.x;
    const i32 place = j < op.chosen ? op.places[first + j] : -1;
    const i32 expert = j < op.chosen ? op.experts[first + j] : 0;
    u32 before = 0;
    count = 0;
    for (u32 i = 0; i < op.chosen; ++i) {
      if (op.places[first + i] < 0) continue;
      const i32 other = op.experts[first + i];
      ++count;
      before += (op.descending ? other > expert : other < expert) ? 1 : 0;
    }
    if (place < 0) continue;
    places[before] = place;
    weights[before] = op.weights != nullptr ? op.weights[first + j] : 1.0f;
  }
  __syncthreads();
  return count;
}

constexpr u32 combined_in_flight = 4;  // rows loaded before the first is added

// s += weight x[place], in order.
template <bool whole, class T>
__device__ __forceinline__ void add_experts(const Combine<T>& op, u32 count, const i32* places,
                                            const float* weights, u32 c, float (&s)[8]) {
  for (u32 first = 0; first < count; first += combined_in_flight) {
    float v[combined_in_flight][8];
    UNROLL for (u32 k = 0; k < combined_in_flight; ++k) {
      if (first + k >= count) break;
      load8<whole>(op.x + static_cast<u64>(places[first + k]) * op.columns, c, op.columns, v[k]);
    }
    UNROLL for (u32 k = 0; k < combined_in_flight; ++k) {
      if (first + k >= count) break;
      for (u32 i = 0; i < 8; ++i) s[i] = fmaf(v[k][i], weights[first + k], s[i]);
    }
  }
}

template <bool whole, class T>
__global__ void __launch_bounds__(256) combine_experts_kernel(Combine<T> op) {
  i32* const places = dynamic_shared<i32>();
  float* const weights = reinterpret_cast<float*>(places + op.chosen);
  const u32 count = order_choices(op, places, weights);
  const u64 row = u64{blockIdx.x} * op.columns;
  for (u32 c = vector_elements * threadIdx.x; c < op.columns; c += vector_elements * blockDim.x) {
    float s[8] = {}, residual[8] = {};
    if (op.sum_in != nullptr) load8<whole>(op.sum_in + row, c, op.columns, s);
    add_experts<whole>(op, count, places, weights, c, s);
    if (op.sum_out != nullptr) store8<whole>(op.sum_out + row, c, op.columns, s);
    if (op.y == nullptr) continue;
    if (op.residual != nullptr) load8<whole>(op.residual + row, c, op.columns, residual);
    for (u32 i = 0; i < 8; ++i) s[i] = op.residual != nullptr ? residual[i] + s[i] : s[i];
    store8<whole>(op.y + row, c, op.columns, s);
  }
}

template <bool whole, class A, class P>
__global__ void __launch_bounds__(route_bias_threads)
    route_bias_gradient_kernel(const i32* offsets, u32 experts, u32 columns, const i32* slots, const A* dy,
                               const P* bias, u64 expert_stride, float* dweights) {
  const u32 rows = static_cast<u32>(offsets[experts]), warps = blockDim.x / warp_threads;
  for (u64 row = u64{blockIdx.x} * warps + warp_index(); row < rows; row += u64{gridDim.x} * warps) {
    const P* own = bias + expert_of_row(offsets, experts, static_cast<u32>(row)) * expert_stride;
    float sum = 0, v[8], b[8];
    for (u32 c = vector_elements * lane_index(); c < columns; c += vector_elements * warp_threads) {
      load8<whole>(dy + row * columns, c, columns, v);
      load8<whole>(own, c, columns, b);
      for (u32 i = 0; i < 8; ++i) sum = fmaf(v[i], b[i], sum);
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) dweights[slots[row]] += sum;
  }
}

}  // namespace
}  // namespace cuda

void gather_rows_cuda(const GatherRows& op, cudaStream_t stream) {
  using namespace cuda;
  if (op.rows_max == 0) return;
  check_same_precision({op.x, op.y});
  for_bool(rows_of_vectors(op.columns, op.x, op.y), [&](auto whole) {
    for_precision(op.x.precision, [&](auto type) {
      using T = decltype(type);
      launch<gather_rows_kernel<whole.value, T>>(gather_rows_launch(op.rows_max, op.columns), stream,
                                                 op.row_count, op.columns, op.chosen, op.slots,
                                                 elements<T>(op.x), elements<T>(op.y));
    });
  });
}

void combine_experts_cuda(const CombineExperts& op, cudaStream_t stream) {
  using namespace cuda;
  if (op.rows == 0) return;
  require(op.chosen <= combine_chosen_max, "combine_experts: too many choices");
  check_same_precision({op.x, op.residual, op.y});
  const ConstValues sum_in = op.sum_in, sum_out = ConstValues(static_cast<const float*>(op.sum_out));
  for_bool(rows_of_vectors(op.columns, op.x, sum_in, sum_out, op.residual, op.y), [&](auto whole) {
    for_precision(op.x.precision, [&](auto type) {
      using T = decltype(type);
      launch<combine_experts_kernel<whole.value, T>>(combine_experts_launch(op.rows, op.columns, op.chosen),
                                                     stream,
                                                     Combine<T>{.columns = op.columns,
                                                                .chosen = op.chosen,
                                                                .places = op.places,
                                                                .experts = op.experts,
                                                                .weights = op.weights,
                                                                .descending = op.descending,
                                                                .x = elements<T>(op.x),
                                                                .sum_in = op.sum_in,
                                                                .sum_out = op.sum_out,
                                                                .residual = elements<T>(op.residual),
                                                                .y = elements<T>(op.y)});
    });
  });
}

void route_bias_gradient_cuda(const RouteBiasGradient& op, cudaStream_t stream) {
  using namespace cuda;
  if (op.rows_max == 0) return;
  const bool whole = rows_of_vectors(op.columns, op.dy, op.bias) && op.expert_stride % vector_elements == 0;
  for_bool(whole, [&](auto w) {
    for_precisions(op.dy.precision, op.bias.precision, [&](auto activation, auto parameter) {
      using A = decltype(activation);
      using P = decltype(parameter);
      launch<route_bias_gradient_kernel<w.value, A, P>>(
          route_bias_gradient_launch(op.rows_max), stream, op.offsets, op.range_count, op.columns, op.slots,
          elements<A>(op.dy), elements<P>(op.bias), op.expert_stride, op.dweights);
    });
  });
}

}  // namespace tidepool
