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

}  // namespace
}  // namespace cuda

void layer_norm_cuda(const LayerNorm& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.x, op.y});
  check_same_precision({op.weight, op.bias});
  for_bool(rows_of_vectors(op.columns, op.x, op.weight, op.bias, op.y), [&](auto whole) {
    for_precisions(op.x.precision, op.weight.precision, [&](auto a, auto p) {
      using A = decltype(a);
      using P = decltype(p);
      launch<layer_norm_kernel<whole.value, A, P>>(norm_rows_launch(op.rows, op.columns), stream,
                                                   ForwardRows<A, P>{.columns = op.columns,
                                                                     .x = elements<A>(op.x),
                                                                     .weight = elements<P>(op.weight),
                                                                     .bias = elements<P>(op.bias),
                                                                     .epsilon = op.epsilon,
                                                                     .y = elements<A>(op.y),
                                                                     .mean = op.mean,
                                                                     .rstd = op.rstd});
    });
  });
}

void layer_norm_backward_cuda(const LayerNormBackward& op, cudaStream_t stream) {
  cuda::launch_norm_backward<true>(op, 0, op.mean, {{op.dweight, op.dbias}}, stream);
}

}  // namespace tidepool
