#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/norm/norm_cuda.h"

namespace tidepool {
namespace cuda {
namespace {

// A: type of activations. P: type of parameters.
template <class A, class P>
struct ForwardRows {
  u32 columns;
  const A* x;
  const P* weight;
  const P* bias;
  float epsilon;
  A* y;
  float* mean;
  float* rstd;
};

// The row is read three times, the second and third time from the cache.
template <bool whole, class A, class P>
__global__ void layer_norm_kernel(ForwardRows<A, P> op) {
  const u64 row = u64{blockIdx.x} * op.columns;
  const A* x = op.x + row;
  float v[8], sum = 0;
  for_columns(op.columns, [&](u32 c) {
    load8<whole>(x, c, op.columns, v);
    for (float value : v) sum += value;
  });
  const float mean = block_sum(sum) / static_cast<float>(op.columns);
  float square = 0;
  for_columns(op.columns, [&](u32 c) {
    load8<whole>(x, c, op.columns, v);
    for (u32 i = 0; i < 8; ++i) {
      const float centred = whole || c + i < op.columns ? v[i] - mean : 0.0f;
      square = fmaf(centred, centred, square);
    }
  });
  const float rstd = 1.0f / sqrtf(block_sum(square) / static_cast<float>(op.columns) + op.epsilon);
  for_columns(op.columns, [&](u32 c) {
    float weight[8], bias[8];
    load8<whole>(x, c, op.columns, v);
    load8<whole>(op.weight, c, op.columns, weight);
    load8<whole>(op.bias, c, op.columns, bias);
    for (u32 i = 0; i < 8; ++i) v[i] = fmaf((v[i] - mean) * rstd, weight[i], bias[i]);
    store8<whole>(op.y + row, c, op.columns, v);
  });
  if (threadIdx.x == 0) {
    if (op.mean != nullptr) op.mean[blockIdx.x] = mean;
    if (op.rstd != nullptr) op.rstd[blockIdx.x] = rstd;
  }
}

template <class A, class P>
struct BackwardRows {
  u32 rows, columns;
  const A* x;
  const P* weight;
  const float* mean;
  const float* rstd;
  const A* dy;
  A* dx;
  bool add_to_dx;
};

// dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy weight.
template <bool whole, class A, class P>
__global__ void layer_norm_dx_kernel(BackwardRows<A, P> op) {
  const u64 row = u64{blockIdx.x} * op.columns;
  const float mean = op.mean[blockIdx.x], rstd = op.rstd[blockIdx.x];
  float xhat[8], g[8], weight[8];
  const auto load = [&](u32 c) {
    load8<whole>(op.x + row, c, op.columns, xhat);
    load8<whole>(op.dy + row, c, op.columns, g);
    load8<whole>(op.weight, c, op.columns, weight);
    for (u32 i = 0; i < 8; ++i) {
      xhat[i] = (xhat[i] - mean) * rstd;
      g[i] *= weight[i];  // 0 past the row's end
    }
  };
  float sum_g = 0, sum_gx = 0;
  for_columns(op.columns, [&](u32 c) {
    load(c);
    for (u32 i = 0; i < 8; ++i) {
      sum_g += g[i];
      sum_gx = fmaf(g[i], xhat[i], sum_gx);
    }
  });
  const float mean_g = block_sum(sum_g) / static_cast<float>(op.columns);
  const float mean_gx = block_sum(sum_gx) / static_cast<float>(op.columns);
  for_columns(op.columns, [&](u32 c) {
    load(c);
    float dx[8] = {};
    if (op.add_to_dx) load8<whole>(op.dx + row, c, op.columns, dx);
    for (u32 i = 0; i < 8; ++i) dx[i] += fmaf(-xhat[i], mean_gx, g[i] - mean_g) * rstd;
    store8<whole>(op.dx + row, c, op.columns, dx);
  });
}

// Partial sums of dweight and dbias: one group's rows, one tile's columns.
template <bool whole, class A, class P>
__global__ void layer_norm_partials_kernel(BackwardRows<A, P> op, float* partials) {
  const u32 column = norm_tile_column();
  float sums[2][8] = {}, x[8], dy[8];
  if (column < op.columns)
    for_rows_of_norm_tile(op.rows, [&](u32 row) {
      const u64 at = u64{row} * op.columns;
      const float mean = op.mean[row], rstd = op.rstd[row];
      load8<whole>(op.x + at, column, op.columns, x);
      load8<whole>(op.dy + at, column, op.columns, dy);
      for (u32 i = 0; i < 8; ++i) {
        sums[0][i] = fmaf(dy[i], (x[i] - mean) * rstd, sums[0][i]);
        sums[1][i] += dy[i];
      }
    });
  store_norm_partials(sums, op.columns, partials);
}

// Calls fn(whole, activation, parameter) with zeros of the types.
template <class Fn>
void for_types(bool whole, Precision activation, Precision parameter, Fn fn) {
  for_bool(whole,
           [&](auto w) { for_precisions(activation, parameter, [&](auto a, auto p) { fn(w, a, p); }); });
}

}  // namespace
}  // namespace cuda

void layer_norm_cuda(const LayerNorm& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.x, op.y});
  check_same_precision({op.weight, op.bias});
  const bool whole = rows_of_vectors(op.columns, op.x, op.weight, op.bias, op.y);
  for_types(whole, op.x.precision, op.weight.precision, [&](auto w, auto a, auto p) {
    using A = decltype(a);
    using P = decltype(p);
    launch<layer_norm_kernel<w.value, A, P>>(norm_rows_launch(op.rows, op.columns), stream,
                                             ForwardRows<A, P>{.columns = op.columns,
                                                               .x = elements<A>(op.x),
                                                               .weight = elements<P>(op.weight),
                                                               .bias = elements<P>(op.bias),
                                                               .epsilon = op.epsilon,
                                                               .y = elements<A>(op.y),
                                                               .mean = op.mean,
                                                               .rstd = op.rstd});
  });
}

void layer_norm_backward_cuda(const LayerNormBackward& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.x, op.dy, op.dx});
  const bool whole = rows_of_vectors(op.columns, op.x, op.weight, op.dy, op.dx);
  for_types(whole, op.x.precision, op.weight.precision, [&](auto w, auto a, auto p) {
    using A = decltype(a);
    using P = decltype(p);
    const BackwardRows<A, P> rows = {.rows = op.rows,
                                     .columns = op.columns,
                                     .x = elements<A>(op.x),
                                     .weight = elements<P>(op.weight),
                                     .mean = op.mean,
                                     .rstd = op.rstd,
                                     .dy = elements<A>(op.dy),
                                     .dx = elements<A>(op.dx),
                                     .add_to_dx = op.add_to_dx};
    // Sums first: dx may be the same array as dy.
    launch<layer_norm_partials_kernel<w.value, A, P>>(norm_tiles_launch(op.rows, op.columns), stream, rows,
                                                      op.partials);
    launch<layer_norm_dx_kernel<w.value, A, P>>(norm_rows_launch(op.rows, op.columns), stream, rows);
  });
  if (op.dweight == nullptr) return;
  launch<norm_sums_kernel<2>>(norm_sums_launch(2, op.columns), stream, norm_groups(op.rows), op.columns,
                              op.partials, NormSums<2>{{op.dweight, op.dbias}}, op.accumulate);
}

}  // namespace tidepool
