#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/launch.h"
#include "kernels/dropout/philox_device.h"
#include "kernels/matmul/matmul_launch.h"
#include "kernels/matmul/matmul_parts_cuda.h"

namespace tidepool::cuda {
namespace {

template <bool whole, class From, class To>
__global__ void convert_kernel(const From* from, u64 from_stride, u32 rows, u32 columns, To* to) {
  const u32 column = vector_elements * static_cast<u32>(grid_thread());
  if (column >= columns) return;
  for (u32 row = blockIdx.y; row < rows; row += gridDim.y) {
    float v[8];
    load8<whole>(from + row * from_stride, column, columns, v);
    store8<whole>(to + u64{row} * columns, column, columns, v);
  }
}

template <bool whole, class T>
__global__ void add_dropped_kernel(DropoutRow row, u64 first, const T* x, const T* residual, T* y, u64 n) {
  for (u64 at = vector_elements * grid_thread(); at < n; at += vector_elements * grid_threads()) {
    float v[8], r[8];
    load8<whole>(x, at, n, v);
    load8<whole>(residual, at, n, r);
    dropout8(row, first + at, v);
    for (u32 i = 0; i < 8; ++i) v[i] += r[i];
    store8<whole>(y, at, n, v);
  }
}

template <bool whole, class T>
__global__ void column_sums_kernel(const T* x, u32 rows, u32 columns, float* parts) {
  BLOCK_SHARED(float[column_sums_threads_y][column_sums_tile], sums);
  const u32 column = blockIdx.x * column_sums_tile + vector_elements * threadIdx.x;
  float total[8] = {}, v[8];
  if (column < columns) {
    // Rows of a part are gridDim.y blocks of 8 apart, so that at any time all parts read close to each other.
    const u32 step = gridDim.y * column_sums_threads_y;
    for (u32 row = blockIdx.y * column_sums_threads_y + threadIdx.y; row < rows; row += step) {
      load8<whole>(x + u64{row} * columns, column, columns, v);
      for (u32 i = 0; i < 8; ++i) total[i] += v[i];
    }
  }
  for (u32 i = 0; i < 8; ++i) sums[threadIdx.y][vector_elements * threadIdx.x + i] = total[i];
  __syncthreads();
  const u32 thread = threadIdx.y * warp_threads + threadIdx.x;  // 0 ... 255: one column each
  const u32 own = blockIdx.x * column_sums_tile + thread;
  if (own >= columns) return;
  float sum = 0;
  for (u32 y = 0; y < column_sums_threads_y; ++y) sum += sums[y][thread];
  parts[u64{blockIdx.y} * columns + own] = sum;
}

__global__ void sum_of_parts_kernel(const float* parts, u32 count, u32 columns, float* sums,
                                    bool accumulate) {
  const u64 column = grid_thread();
  if (column >= columns) return;
  float sum = 0;
  for (u32 part = 0; part < count; ++part) sum += parts[u64{part} * columns + column];
  sums[column] = accumulate ? sums[column] + sum : sum;
}

}  // namespace

void convert_rows(ConstValues from, u64 from_stride, u32 rows, u32 columns, Values to, cudaStream_t stream) {
  const bool whole = rows_of_vectors(columns, from, to) && from_stride % vector_elements == 0;
  for_bool(whole, [&](auto w) {
    for_precisions(from.precision, to.precision, [&](auto f, auto t) {
      using From = decltype(f);
      using To = decltype(t);
      launch<convert_kernel<w.value, From, To>>(convert_launch(rows, columns), stream, elements<From>(from),
                                                from_stride, rows, columns, elements<To>(to));
    });
  });
}

void add_dropped(const Dropout& dropout, u64 first, ConstValues x, ConstValues residual, Values y, u64 n,
                 cudaStream_t stream) {
  check_same_precision({x, residual, y});
  for_bool(rows_of_vectors(n, x, residual, y), [&](auto whole) {
    for_precision(x.precision, [&](auto type) {
      using T = decltype(type);
      launch<add_dropped_kernel<whole.value, T>>(elementwise_launch(n, vector_elements), stream,
                                                 dropout_row_of(dropout), first, elements<T>(x),
                                                 elements<T>(residual), elements<T>(y), n);
    });
  });
}

void column_sums(ConstValues x, u32 rows, u32 columns, float* parts, float* sums, bool accumulate,
                 cudaStream_t stream) {
  for_bool(rows_of_vectors(columns, x), [&](auto whole) {
    for_precision(x.precision, [&](auto type) {
      using T = decltype(type);
      launch<column_sums_kernel<whole.value, T>>(column_sums_launch(rows, columns), stream, elements<T>(x),
                                                 rows, columns, parts);
    });
  });
  launch<sum_of_parts_kernel>(sum_of_parts_launch(columns), stream, parts, column_sums_parts(rows), columns,
                              sums, accumulate);
}

}  // namespace tidepool::cuda
