#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/norm/norm_cuda.h"
#include "kernels/rms_norm/rms_norm.h"

namespace tidepool {
namespace cuda {
namespace {

// A: type of activations. P: type of parameters.
template <class A, class P>
struct ForwardRows {
  u32 columns;
  const A* x;
  const P* weight;
  float weight_offset, epsilon;
  const A* residual;  // or null
  A* y;
  float* rstd;  // or null
};

// The row is read twice, the second time from the cache.
template <bool whole, class A, class P>
__global__ void rms_norm_kernel(ForwardRows<A, P> op) {
  const u64 row = u64{blockIdx.x} * op.columns;
  float v[8], square = 0;
  for_columns(op.columns, [&](u32 c) {
    load8<whole>(op.x + row, c, op.columns, v);
    for (float value : v) square = fmaf(value, value, square);
  });
  const float rstd = 1.0f / sqrtf(block_sum(square) / static_cast<float>(op.columns) + op.epsilon);
  for_columns(op.columns, [&](u32 c) {
    float weights[8], residual[8] = {};
    load8<whole>(op.x + row, c, op.columns, v);
    load8<whole>(op.weight, c, op.columns, weights);
    if (op.residual != nullptr) load8<whole>(op.residual + row, c, op.columns, residual);
    for (u32 i = 0; i < 8; ++i) v[i] = v[i] * rstd * (weights[i] + op.weight_offset) + residual[i];
    store8<whole>(op.y + row, c, op.columns, v);
  });
  if (threadIdx.x == 0 && op.rstd != nullptr) op.rstd[blockIdx.x] = rstd;
}

template <class A, class P>
struct BackwardRows {
  u32 rows, columns;
  const A* x;
  const P* weight;
  float weight_offset;
  const float* rstd;
  const A* dy;
  A* dx;
  bool add_to_dx;
};

// dx = rstd (g - xhat mean(g xhat)), g = dy weight.
template <bool whole, class A, class P>
__global__ void rms_norm_dx_kernel(BackwardRows<A, P> op) {
  const u64 row = u64{blockIdx.x} * op.columns;
  const float rstd = op.rstd[blockIdx.x];
  float xhat[8], g[8], weight[8];
  const auto load = [&](u32 c) {
    load8<whole>(op.x + row, c, op.columns, xhat);
    load8<whole>(op.dy + row, c, op.columns, g);
    load8<whole>(op.weight, c, op.columns, weight);
    for (u32 i = 0; i < 8; ++i) {
      xhat[i] *= rstd;
      g[i] *= weight[i] + op.weight_offset;
    }
  };
  float sum_gx = 0;
  for_columns(op.columns, [&](u32 c) {
    load(c);
    for (u32 i = 0; i < 8; ++i) sum_gx = fmaf(g[i], xhat[i], sum_gx);
  });
  const float mean_gx = block_sum(sum_gx) / static_cast<float>(op.columns);
  for_columns(op.columns, [&](u32 c) {
    load(c);
    float dx[8] = {};
    if (op.add_to_dx) load8<whole>(op.dx + row, c, op.columns, dx);
    for (u32 i = 0; i < 8; ++i) dx[i] += fmaf(-xhat[i], mean_gx, g[i]) * rstd;
    store8<whole>(op.dx + row, c, op.columns, dx);
  });
}

// Partial sums of dweight: one group's rows, one tile's columns.
template <bool whole, class A, class P>
__global__ void rms_norm_partials_kernel(BackwardRows<A, P> op, float* partials) {
  const u32 column = norm_tile_column();
  float sums[1][8] = {}, x[8], dy[8];
  if (column < op.columns)
    for_rows_of_norm_tile(op.rows, [&](u32 row) {
      const u64 at = u64{row} * op.columns;
      const float rstd = op.rstd[row];
      load8<whole>(op.x + at, column, op.columns, x);
      load8<whole>(op.dy + at, column, op.columns, dy);
      for (u32 i = 0; i < 8; ++i) sums[0][i] = fmaf(dy[i], x[i] * rstd, sums[0][i]);
    });
  store_norm_partials(sums, op.columns, partials);
}

}  // namespace
}  // namespace cuda

void rms_norm_cuda(const RmsNorm& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.x, op.residual, op.y});
  for_bool(rows_of_vectors(op.columns, op.x, op.weight, op.residual, op.y), [&](auto whole) {
    for_precisions(op.x.precision, op.weight.precision, [&](auto a, auto p) {
      using A = decltype(a);
      using P = decltype(p);
      launch<rms_norm_kernel<whole.value, A, P>>(norm_rows_launch(op.rows, op.columns), stream,
                                                 ForwardRows<A, P>{.columns = op.columns,
                                                                   .x = elements<A>(op.x),
                                                                   .weight = elements<P>(op.weight),
                                                                   .weight_offset = op.weight_offset,
                                                                   .epsilon = op.epsilon,
                                                                   .residual = elements<A>(op.residual),
                                                                   .y = elements<A>(op.y),
                                                                   .rstd = op.rstd});
    });
  });
}

void rms_norm_backward_cuda(const RmsNormBackward& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.x, op.dy, op.dx});
  for_bool(rows_of_vectors(op.columns, op.x, op.weight, op.dy, op.dx), [&](auto whole) {
    for_precisions(op.x.precision, op.weight.precision, [&](auto a, auto p) {
      using A = decltype(a);
      using P = decltype(p);
      const BackwardRows<A, P> rows = {.rows = op.rows,
                                       .columns = op.columns,
                                       .x = elements<A>(op.x),
                                       .weight = elements<P>(op.weight),
                                       .weight_offset = op.weight_offset,
                                       .rstd = op.rstd,
                                       .dy = elements<A>(op.dy),
                                       .dx = elements<A>(op.dx),
                                       .add_to_dx = op.add_to_dx};
      // Sums first: dx may be the same array as dy.
      launch<rms_norm_partials_kernel<whole.value, A, P>>(norm_tiles_launch(op.rows, op.columns), stream,
                                                          rows, op.partials);
      launch<rms_norm_dx_kernel<whole.value, A, P>>(norm_rows_launch(op.rows, op.columns), stream, rows);
    });
  });
  if (op.dweight == nullptr) return;
  launch<norm_sums_kernel<1>>(norm_sums_launch(1, op.columns), stream, norm_groups(op.rows), op.columns,
                              op.partials, NormSums<1>{{op.dweight}}, op.accumulate);
}

}  // namespace tidepool
