// RMS norm's forward on the device. The backward is shared with layer norm: kernels/norm/norm_cuda.h. Norms
// of q and k are part of the rotation: kernels/rotary/rotary_cuda.cu.
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
  cuda::launch_norm_backward<false>(op, op.weight_offset, nullptr, {{op.dweight}}, stream);
}

}  // namespace tidepool
