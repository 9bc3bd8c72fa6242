// The norm of the gated delta rule's output on the device. Memory is the bottleneck: each array is read and
// written once, 16 bytes at a time. A group of lanes of a warp has a head of a row in registers.
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
struct GatedNormArguments {
  DeltaShape shape;
  u32 lanes;  // of a group
  float epsilon;
  const A *x, *projected;
  const P* weight;
};

// A thread's place: eight columns of the heads that its group takes in turn.
struct GatedNormPlace {
  u32 column, group, groups;

  __device__ __forceinline__ explicit GatedNormPlace(u32 lanes)
      : column(threadIdx.x % lanes * vector_elements),
        group(threadIdx.x / lanes),
        groups(blockDim.x / lanes) {}
};

// Sum over the lanes of a group.
// REQUIRES: every lane of the warp calls it.
__device__ __forceinline__ float sum_of_lanes(float x, u32 lanes) {
  for (u32 flip = lanes / 2; flip > 0; flip /= 2) x += __shfl_xor_sync(all_lanes, x, static_cast<int>(flip));
  return x;
}

// A head of a row: x / rms(x), and its gate's inputs. Lanes without a head have zeros.
template <bool whole, class A, class P>
struct GatedNormHead {
  u64 at = 0, gate = 0;  // its first elements in [R, NV DV], and in the projections
  float normal[8] = {}, z[8] = {};
  float rstd = 0;

  __device__ __forceinline__ GatedNormHead(const GatedNormArguments<A, P>& op, u64 head, u32 column,
                                           bool is_mine) {
    const DeltaShape& s = op.shape;
    const u64 row = head / s.value_heads;
    const u32 in_row = static_cast<u32>(head % s.value_heads);
    at = row * s.value_columns() + u64{in_row} * s.value_size;
    gate = row * s.columns() + s.z(in_row);
    if (is_mine) {
      load8<whole>(op.x + at, column, s.value_size, normal);
      load8<whole>(op.projected + gate, column, s.value_size, z);
    }
    float square = 0;
    UNROLL for (u32 i = 0; i < 8; ++i) square = fmaf(normal[i], normal[i], square);
    square = sum_of_lanes(square, op.lanes);
    rstd = 1.0f / sqrtf(square / static_cast<float>(s.value_size) + op.epsilon);
    UNROLL for (u32 i = 0; i < 8; ++i) normal[i] *= rstd;
  }
};

template <bool whole, class A, class P>
__global__ void __launch_bounds__(gated_norm_threads) gated_norm_kernel(GatedNormArguments<A, P> op, A* y) {
  const GatedNormPlace place(op.lanes);
  const u64 head = u64{blockIdx.x} * place.groups + place.group;
  const bool mine = head < u64{op.shape.rows()} * op.shape.value_heads && place.column < op.shape.value_size;
  const GatedNormHead<whole, A, P> in(op, head, place.column, mine);
  if (!mine) return;
  float weight[8], out[8];
  load8<whole>(op.weight, place.column, op.shape.value_size, weight);
  UNROLL for (u32 i = 0; i < 8; ++i) out[i] = in.normal[i] * weight[i] * Silu::value<A>(in.z[i]);
  store8<whole>(y + in.at, place.column, op.shape.value_size, out);
}

template <class A>
struct GatedNormGradients {
  const A* dy;
  A *dx, *dprojected;
  float* partials;  // [groups of rows, DV], or null
};

// With n = rstd x and s = silu(z): dn = dy weight s; dx = rstd (dn - n mean(dn n)). Adds to dweight.
template <bool whole, class A, class P>
__device__ __forceinline__ void gated_norm_back(const GatedNormArguments<A, P>& op,
                                                const GatedNormGradients<A>& to, u64 head, u32 column,
                                                bool mine, const float (&weight)[8], float (&dweight)[8]) {
  const u32 size = op.shape.value_size;
  const GatedNormHead<whole, A, P> in(op, head, column, mine);
  float dy[8] = {}, dz[8], dn[8], sum = 0;
  if (mine) load8<whole>(to.dy + in.at, column, size, dy);
  UNROLL for (u32 i = 0; i < 8; ++i) {
    const Activated gate = Silu::with_slope<A>(in.z[i]);
    dweight[i] = fmaf(dy[i] * in.normal[i], gate.value, dweight[i]);
    dz[i] = dy[i] * weight[i] * in.normal[i] * gate.slope;
    dn[i] = dy[i] * weight[i] * gate.value;
    sum = fmaf(dn[i], in.normal[i], sum);
  }
  const float mean = sum_of_lanes(sum, op.lanes) / static_cast<float>(size);
  if (!mine) return;
  UNROLL for (u32 i = 0; i < 8; ++i) dn[i] = fmaf(-in.normal[i], mean, dn[i]) * in.rstd;
  store8<whole>(to.dx + in.at, column, size, dn);
  store8<whole>(to.dprojected + in.gate, column, size, dz);
}

// A block has a group of rows.
template <bool whole, class A, class P>
__global__ void __launch_bounds__(gated_norm_backward_threads)
    gated_norm_backward_kernel(GatedNormArguments<A, P> op, GatedNormGradients<A> to) {
  BLOCK_SHARED(float[gated_norm_backward_threads][9], sums);  // 9: lanes' columns in different banks
  const DeltaShape& s = op.shape;
  const GatedNormPlace place(op.lanes);
  const u64 begin = u64{blockIdx.x} * delta_group_rows * s.value_heads,
            all = u64{s.rows()} * s.value_heads - begin, most = u64{delta_group_rows} * s.value_heads,
            count = all < most ? all : most;
  float weight[8] = {}, dweight[8] = {};
  if (place.column < s.value_size) load8<whole>(op.weight, place.column, s.value_size, weight);
  for (u64 from = 0; from < count; from += place.groups) {  // lanes without a head run along with their warp
    const bool mine = from + place.group < count && place.column < s.value_size;
    gated_norm_back<whole>(op, to, begin + from + place.group, place.column, mine, weight, dweight);
  }
  if (to.partials == nullptr) return;
  UNROLL for (u32 i = 0; i < 8; ++i) sums[threadIdx.x][i] = dweight[i];
  __syncthreads();
  for (u32 c = threadIdx.x; c < s.value_size; c += blockDim.x) {
    float total = 0;
    for (u32 thread = c / 8; thread < gated_norm_backward_threads; thread += op.lanes)
      total += sums[thread][c % 8];
    to.partials[u64{blockIdx.x} * s.value_size + c] = total;
  }
}

// `op`: GatedNorm or GatedNormBackward.
template <class A, class P, class Op>
GatedNormArguments<A, P> gated_norm_arguments(const Op& op) {
  return {.shape = op.shape,
          .lanes = gated_norm_lanes(op.shape.value_size),
          .epsilon = op.epsilon,
          .x = elements<A>(op.x),
          .projected = elements<A>(op.projected),
          .weight = elements<P>(op.weight)};
}

// Every head's columns of z begin at a multiple of eight columns.
bool gates_of_vectors(const DeltaShape& s) {
  return s.key_size % vector_elements == 0 && s.value_size % vector_elements == 0 &&
         s.columns() % vector_elements == 0;
}
void check_gated_norm(const DeltaShape& s) {
  require(s.key_heads > 0 && s.value_heads % s.key_heads == 0, "value heads share key heads evenly");
  require(s.value_size >= 1 && s.value_size <= delta_head_size_max, "a head has 1 to 256 values");
}

}  // namespace
}  // namespace cuda

void gated_norm_cuda(const GatedNorm& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.x, op.projected, op.y});
  check_gated_norm(op.shape);
  if (op.shape.rows() == 0) return;
  const bool vectors = gates_of_vectors(op.shape) && rows_of_vectors(0, op.x, op.projected, op.weight, op.y);
  for_bool(vectors, [&](auto whole) {
    for_precisions(op.x.precision, op.weight.precision, [&](auto a, auto p) {
      using A = decltype(a);
      using P = decltype(p);
      launch<gated_norm_kernel<whole.value, A, P>>(gated_norm_launch(op.shape), stream,
                                                   gated_norm_arguments<A, P>(op), elements<A>(op.y));
    });
  });
}

void gated_norm_backward_cuda(const GatedNormBackward& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.x, op.projected, op.dy, op.dx, op.dprojected});
  check_gated_norm(op.shape);
  const DeltaShape& s = op.shape;
  if (s.rows() == 0) return;
  const bool vectors =
      gates_of_vectors(s) && rows_of_vectors(0, op.x, op.projected, op.weight, op.dy, op.dx, op.dprojected);
  for_bool(vectors, [&](auto whole) {
    for_precisions(op.x.precision, op.weight.precision, [&](auto a, auto p) {
      using A = decltype(a);
      using P = decltype(p);
      const GatedNormGradients<A> gradients = {.dy = elements<A>(op.dy),
                                               .dx = elements<A>(op.dx),
                                               .dprojected = elements<A>(op.dprojected),
                                               .partials = op.dweight != nullptr ? op.partials : nullptr};
      launch<gated_norm_backward_kernel<whole.value, A, P>>(gated_norm_backward_launch(s), stream,
                                                            gated_norm_arguments<A, P>(op), gradients);
    });
  });
  if (op.dweight == nullptr) return;
  sum_delta_groups({.partials = op.partials,
                    .groups = gated_norm_groups(s),
                    .kinds = 1,
                    .columns = s.value_size,
                    .out = {op.dweight},
                    .accumulate = op.accumulate},
                   stream);
}

}  // namespace tidepool
