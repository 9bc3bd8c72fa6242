// Mamba-2's norm on the device. Memory is the bottleneck. A row's columns of a key head may be many
// thousands, so a block first sums over them and then reads them again, from the L2 cache. Backward's second
// kernel has neighbours in neighbouring threads, each with a group of rows, whose share of the weight's
// gradient it sums.
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/gates.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/delta_rule/delta_rule_launch.h"
#include "kernels/delta_rule/delta_sums_cuda.h"

namespace tidepool {
namespace cuda {
namespace {

template <class A, class P>
struct GroupNormArguments {
  DeltaShape shape;
  float epsilon;
  const A *x, *projected;
  const P* weight;
};

// The columns of a row that a block normalises together.
struct GroupNormPlace {
  u64 at, z;           // first elements in [R, NV DV], and in the projections
  u32 first, columns;  // first column

  __device__ __forceinline__ explicit GroupNormPlace(const DeltaShape& s) : columns(s.group_columns()) {
    const u64 row = blockIdx.x / s.key_heads;
    first = blockIdx.x % s.key_heads * columns;
    at = row * s.value_columns() + first, z = row * s.columns() + s.z(0) + first;
  }
};

template <class A, class P>
__device__ __forceinline__ float gated_at(const GroupNormArguments<A, P>& op, u64 at, u64 z) {
  return widened(op.x[at]) * Silu::value<A>(widened(op.projected[z]));
}
// RETURNS: 1 / rms of the block's columns.
template <class A, class P>
__device__ __forceinline__ float rstd_of(const GroupNormArguments<A, P>& op, const GroupNormPlace& place) {
  float square = 0;
  for (u32 c = threadIdx.x; c < place.columns; c += blockDim.x) {
    const float h = gated_at(op, place.at + c, place.z + c);
    square = fmaf(h, h, square);
  }
  return 1.0f / sqrtf(block_sum(square) / static_cast<float>(place.columns) + op.epsilon);
}

template <class A, class P>
__global__ void __launch_bounds__(group_norm_threads) group_norm_kernel(GroupNormArguments<A, P> op, A* y) {
  const GroupNormPlace place(op.shape);
  const float rstd = rstd_of(op, place);
  for (u32 c = threadIdx.x; c < place.columns; c += blockDim.x) {
    const float h = gated_at(op, place.at + c, place.z + c);
    y[place.at + c] = narrowed<A>(rstd * h * widened(op.weight[place.first + c]));
  }
}

// stats [R, NK, 2]: 1 / rms, and with n = rstd h the mean of dy weight n.
template <class A, class P>
__global__ void __launch_bounds__(group_norm_threads)
    group_norm_stats_kernel(GroupNormArguments<A, P> op, const A* dy, float* stats) {
  const GroupNormPlace place(op.shape);
  const float rstd = rstd_of(op, place);
  float sum = 0;
  for (u32 c = threadIdx.x; c < place.columns; c += blockDim.x) {
    const float normal = rstd * gated_at(op, place.at + c, place.z + c);
    sum = fmaf(widened(dy[place.at + c]) * widened(op.weight[place.first + c]), normal, sum);
  }
  sum = block_sum(sum);
  if (threadIdx.x != 0) return;
  stats[2 * u64{blockIdx.x}] = rstd;
  stats[2 * u64{blockIdx.x} + 1] = sum / static_cast<float>(place.columns);
}

template <class A>
struct GroupNormGradients {
  const A* dy;
  A *dx, *dprojected;
  const float* stats;
  float* partials;  // [groups of rows, NV DV], or null
};

// dh = rstd (dy weight - n mean); dx = dh silu(z); dz = dh x silu'(z). dx may be dy: each element is read and
// then written by one thread.
template <class A, class P>
__global__ void __launch_bounds__(group_norm_columns)
    group_norm_backward_kernel(GroupNormArguments<A, P> op, GroupNormGradients<A> to) {
  const DeltaShape& s = op.shape;
  const u32 all = s.value_columns(), blocks = (all + group_norm_columns - 1) / group_norm_columns;
  const u32 column = blockIdx.x % blocks * group_norm_columns + threadIdx.x, group = blockIdx.x / blocks;
  if (column >= all) return;
  const u32 head = column / s.group_columns();
  const u32 begin = group * delta_group_rows, end = min(begin + delta_group_rows, s.rows());
  const float weight = widened(op.weight[column]);
  float dweight = 0;
  for (u32 row = begin; row < end; ++row) {
    const u64 at = u64{row} * all + column, z = u64{row} * s.columns() + s.z(0) + column;
    const float* stats = to.stats + 2 * (u64{row} * s.key_heads + head);
    const Activated gate = Silu::with_slope<A>(widened(op.projected[z]));
    const float x = widened(op.x[at]), dy = widened(to.dy[at]), normal = stats[0] * (x * gate.value);
    const float dh = stats[0] * fmaf(-normal, stats[1], dy * weight);
    dweight = fmaf(dy, normal, dweight);
    to.dx[at] = narrowed<A>(dh * gate.value);
    to.dprojected[z] = narrowed<A>(dh * x * gate.slope);
  }
  if (to.partials != nullptr) to.partials[u64{group} * all + column] = dweight;
}

// `op`: GroupNorm or GroupNormBackward. Calls fn(arguments).
template <class Op, class Fn>
void for_group_norm(const Op& op, Fn fn) {
  require(op.shape.key_heads > 0 && op.shape.value_heads % op.shape.key_heads == 0,
          "value heads share key heads evenly");
  for_precisions(op.x.precision, op.weight.precision, [&](auto a, auto p) {
    using A = decltype(a);
    using P = decltype(p);
    fn(GroupNormArguments<A, P>{.shape = op.shape,
                                .epsilon = op.epsilon,
                                .x = elements<A>(op.x),
                                .projected = elements<A>(op.projected),
                                .weight = elements<P>(op.weight)});
  });
}

template <class A, class P>
void launch_group_norm(const GroupNorm& op, const GroupNormArguments<A, P>& arguments, cudaStream_t stream) {
  launch<group_norm_kernel<A, P>>(group_norm_launch(op.shape), stream, arguments, elements<A>(op.y));
}
template <class A, class P>
void launch_group_norm(const GroupNormBackward& op, const GroupNormArguments<A, P>& arguments,
                       cudaStream_t stream) {
  const u64 sums = div_up(op.shape.rows(), u64{delta_group_rows}) * op.shape.value_columns();
  float* stats = op.partials + sums;
  launch<group_norm_stats_kernel<A, P>>(group_norm_launch(op.shape), stream, arguments, elements<A>(op.dy),
                                        stats);
  const GroupNormGradients<A> gradients = {.dy = elements<A>(op.dy),
                                           .dx = elements<A>(op.dx),
                                           .dprojected = elements<A>(op.dprojected),
                                           .stats = stats,
                                           .partials = op.dweight != nullptr ? op.partials : nullptr};
  launch<group_norm_backward_kernel<A, P>>(group_norm_backward_launch(op.shape), stream, arguments,
                                           gradients);
}

}  // namespace
}  // namespace cuda

void group_norm_cuda(const GroupNorm& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.x, op.projected, op.y});
  if (op.shape.rows() == 0) return;
  for_group_norm(op, [&](const auto& arguments) { launch_group_norm(op, arguments, stream); });
}

void group_norm_backward_cuda(const GroupNormBackward& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.x, op.projected, op.dy, op.dx, op.dprojected});
  const DeltaShape& s = op.shape;
  if (s.rows() == 0) return;
  for_group_norm(op, [&](const auto& arguments) { launch_group_norm(op, arguments, stream); });
  if (op.dweight == nullptr) return;
  sum_delta_groups({.partials = op.partials,
                    .groups = gated_norm_groups(s),
                    .kinds = 1,
                    .columns = s.value_columns(),
                    .out = {op.dweight},
                    .accumulate = op.accumulate},
                   stream);
}

}  // namespace tidepool
