// Rotary on the device. Memory is the bottleneck: q and k are read and written once, 16 bytes at a time.
#include "kernels/cuda/device.h"
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/rotary/rotary_launch.h"

namespace tidepool {
namespace cuda {
namespace {

struct RotarySizes {
  u32 tokens, heads, kv_heads, head_size;
  u32 rotated;        // rotated elements of a head
  float factor;       // on cosine and sine
  u32 lanes;          // lanes per group; a group takes a head
  const i32* starts;  // or null
  float frequencies[rotary_pairs_max];
};

// cosine[i], sine[i] of a row; direction: 1 forward, -1 back. All threads call it; it ends with a barrier.
struct Angles {
  float cosine[rotary_pairs_max], sine[rotary_pairs_max];
};
__device__ __forceinline__ void make_angles(const RotarySizes& s, u32 row, float direction, Angles& angles) {
  u32 position = row % s.tokens;
  if (s.starts != nullptr) position -= static_cast<u32>(s.starts[row]);
  for (u32 i = threadIdx.x; i < s.rotated / 2; i += blockDim.x) {
    const float angle = static_cast<float>(position) * s.frequencies[i];
    angles.cosine[i] = s.factor * cosf(angle);
    angles.sine[i] = direction * s.factor * sinf(angle);
  }
  __syncthreads();
}

// Eight pairs: a[i] and b[i] are half of the rotated elements apart.
struct Pairs {
  float a[8], b[8];

  template <bool whole, class T>
  __device__ __forceinline__ void load(const T* head, u32 pair, u32 half) {
    load8<whole>(head, pair, half, a);
    load8<whole>(head + half, pair, half, b);
  }
  template <bool whole, class T>
  __device__ __forceinline__ void store(T* head, u32 pair, u32 half) const {
    store8<whole>(head, pair, half, a);
    store8<whole>(head + half, pair, half, b);
  }
  __device__ __forceinline__ void turn(const Angles& angles, u32 pair, u32 half) {
    UNROLL for (u32 i = 0; i < 8; ++i) {
      if (pair + i >= half) continue;
      const float c = angles.cosine[pair + i], s = angles.sine[pair + i], x = a[i], y = b[i];
      a[i] = fmaf(-y, s, x * c);
      b[i] = fmaf(x, s, y * c);
    }
  }
};

// Sum over the lanes of a group.
__device__ __forceinline__ float group_sum(float x, u32 lanes) {
  for (u32 flip = lanes / 2; flip > 0; flip /= 2) x += __shfl_xor_sync(all_lanes, x, static_cast<int>(flip));
  return x;
}

// 1 / sqrt(mean(x^2) + epsilon) of a head.
// REQUIRES: every lane of the warp calls it.
__device__ __forceinline__ float head_rstd(const Pairs& x, float epsilon, const RotarySizes& s) {
  float square = 0;
  UNROLL for (u32 i = 0; i < 8; ++i) square = fmaf(x.a[i], x.a[i], fmaf(x.b[i], x.b[i], square));
  return 1.0f / sqrtf(group_sum(square, s.lanes) / static_cast<float>(s.head_size) + epsilon);
}

// A thread's place: a lane of a group; groups take heads in turn.
struct RotaryPlace {
  u32 pair, group, groups;

  __device__ __forceinline__ explicit RotaryPlace(const RotarySizes& s)
      : pair(threadIdx.x % s.lanes * vector_elements),
        group(threadIdx.x / s.lanes),
        groups(blockDim.x / s.lanes) {}
};

// A: type of activations. P: type of parameters.
template <class A, class P>
struct RotaryArguments {
  RotarySizes sizes;
  float direction;
  const A* qkv;
  A* out;             // may be qkv
  const P* norms[2];  // q's and k's, or null
  float norm_offset, epsilon;
};

// Weights of a head's norm, with their offset; `op` has both. Lanes past the head run along with their warp
// and load no weight.
template <bool whole, class Op, class P>
__device__ __forceinline__ Pairs weight_pairs(const Op& op, const P* weight, u32 pair) {
  const u32 half = op.sizes.head_size / 2;
  Pairs w = {};
  if (pair >= half) return w;
  w.load<whole>(weight, pair, half);
  UNROLL for (u32 i = 0; i < 8; ++i) {
    w.a[i] += op.norm_offset;
    w.b[i] += op.norm_offset;
  }
  return w;
}

template <bool whole, class A, class P>
__device__ __forceinline__ void normalise(Pairs& x, const RotaryArguments<A, P>& op, const P* weight,
                                          u32 pair) {
  const float rstd = head_rstd(x, op.epsilon, op.sizes);
  const Pairs w = weight_pairs<whole>(op, weight, pair);
  UNROLL for (u32 i = 0; i < 8; ++i) {
    x.a[i] = x.a[i] * rstd * w.a[i];
    x.b[i] = x.b[i] * rstd * w.b[i];
  }
}

template <bool whole, class A, class P>
__global__ void __launch_bounds__(rotary_threads) rotary_kernel(RotaryArguments<A, P> op) {
  BLOCK_SHARED(Angles, angles);
  const RotarySizes& s = op.sizes;
  make_angles(s, blockIdx.x, op.direction, angles);
  const RotaryPlace place(s);
  const u32 size = s.head_size, half = s.rotated / 2, heads = s.heads + s.kv_heads;
  const u64 row = u64{blockIdx.x} * (heads + s.kv_heads) * size;
  for (u32 from = 0; from < heads; from += place.groups) {  // lanes without a head run along with their warp
    const u32 head = from + place.group;
    const bool mine = head < heads && place.pair < half;
    Pairs x = {};
    if (mine) x.load<whole>(op.qkv + row + head * size, place.pair, half);
    if (op.norms[0] != nullptr) normalise<whole>(x, op, op.norms[head < s.heads ? 0 : 1], place.pair);
    x.turn(angles, place.pair, half);
    if (mine) x.store<whole>(op.out + row + head * size, place.pair, half);
  }
  if (op.out == op.qkv) return;
  const u32 rest = size - s.rotated;
  for (u32 i = threadIdx.x; i < heads * rest; i += blockDim.x) {
    const u64 at = row + i / rest * size + s.rotated + i % rest;
    op.out[at] = op.qkv[at];
  }
  const u64 v = row + heads * size;
  const u32 columns = s.kv_heads * size;
  for (u32 c = vector_elements * threadIdx.x; c < columns; c += vector_elements * blockDim.x) {
    float x[8];
    load8<whole>(op.qkv + v, c, columns, x);
    store8<whole>(op.out + v, c, columns, x);
  }
}

template <class A, class P>
struct NormsBackwardArguments {
  RotarySizes sizes;
  u32 rows;
  const A* qkv;
  A* dqkv;
  const P* norms[2];
  float norm_offset, epsilon;
  float* partials;  // [groups of rows, q and k, D]
};

// dx = rstd (g - xhat mean(g xhat)), g = dy weight. Overwrites dy with dx and adds to dweight.
template <bool whole, class A, class P>
__device__ __forceinline__ void norm_backward(Pairs& dy, const Pairs& x,
                                              const NormsBackwardArguments<A, P>& op, const P* weight,
                                              u32 pair, Pairs& dweight) {
  const RotarySizes& s = op.sizes;
  const float rstd = head_rstd(x, op.epsilon, s);
  const Pairs w = weight_pairs<whole>(op, weight, pair);
  float sum = 0;
  UNROLL for (u32 i = 0; i < 8; ++i) {
    sum = fmaf(dy.a[i] * w.a[i], x.a[i] * rstd, sum);
    sum = fmaf(dy.b[i] * w.b[i], x.b[i] * rstd, sum);
  }
  const float mean = group_sum(sum, s.lanes) / static_cast<float>(s.head_size);
  UNROLL for (u32 i = 0; i < 8; ++i) {
    const float xhat_a = x.a[i] * rstd, xhat_b = x.b[i] * rstd;
    dweight.a[i] = fmaf(dy.a[i], xhat_a, dweight.a[i]);
    dweight.b[i] = fmaf(dy.b[i], xhat_b, dweight.b[i]);
    dy.a[i] = fmaf(-xhat_a, mean, dy.a[i] * w.a[i]) * rstd;
    dy.b[i] = fmaf(-xhat_b, mean, dy.b[i] * w.b[i]) * rstd;
  }
}

// Sums over the block's groups of lanes, in order, into partials [D].
__device__ __forceinline__ void write_partials(const Pairs& dweight, const RotarySizes& s, float* partials) {
  BLOCK_SHARED(float[rotary_threads][17], sums);  // 17: lanes' columns in different banks
  for (u32 i = 0; i < 8; ++i) {
    sums[threadIdx.x][i] = dweight.a[i];
    sums[threadIdx.x][8 + i] = dweight.b[i];
  }
  __syncthreads();
  const u32 half = s.head_size / 2;
  for (u32 c = threadIdx.x; c < s.head_size; c += blockDim.x) {
    const u32 pair = c % half, place = pair % 8 + c / half * 8;
    float total = 0;
    for (u32 thread = pair / 8; thread < rotary_threads; thread += s.lanes) total += sums[thread][place];
    partials[c] = total;
  }
  __syncthreads();
}

// Backward of heads [first, first + count) of a row with norm `weight`; adds their share of the weight's
// gradient to `dweight`.
template <bool whole, class A, class P>
__device__ __forceinline__ void backward_heads(const NormsBackwardArguments<A, P>& op, const Angles& angles,
                                               u64 row, u32 first, u32 count, const P* weight,
                                               Pairs& dweight) {
  const RotarySizes& s = op.sizes;
  const RotaryPlace place(s);
  const u32 half = s.head_size / 2;
  for (u32 from = 0; from < count; from += place.groups) {  // lanes without a head run along with their warp
    const bool mine = from + place.group < count && place.pair < half;
    const u64 head = row + (first + from + place.group) * s.head_size;
    Pairs x = {}, dy = {};
    if (mine) {
      x.load<whole>(op.qkv + head, place.pair, half);
      dy.load<whole>(op.dqkv + head, place.pair, half);
    }
    dy.turn(angles, place.pair, half);
    norm_backward<whole>(dy, x, op, weight, place.pair, dweight);
    if (mine) dy.store<whole>(op.dqkv + head, place.pair, half);
  }
}

template <bool whole, class A, class P>
__global__ void __launch_bounds__(rotary_threads)
    rotary_norms_backward_kernel(NormsBackwardArguments<A, P> op) {
  BLOCK_SHARED(Angles, angles);
  const RotarySizes& s = op.sizes;
  const u32 columns = (s.heads + 2 * s.kv_heads) * s.head_size;
  const u32 begin = blockIdx.x * rotary_group_rows;
  const u32 end = op.rows - begin < rotary_group_rows ? op.rows : begin + rotary_group_rows;
  Pairs dq_norm = {}, dk_norm = {};
  for (u32 row = begin; row < end; ++row) {
    make_angles(s, row, -1.0f, angles);
    const u64 at = u64{row} * columns;
    backward_heads<whole>(op, angles, at, 0, s.heads, op.norms[0], dq_norm);
    backward_heads<whole>(op, angles, at, s.heads, s.kv_heads, op.norms[1], dk_norm);
    __syncthreads();  // no thread reads the angles any more
  }
  float* partials = op.partials + u64{blockIdx.x} * 2 * s.head_size;
  write_partials(dq_norm, s, partials);
  write_partials(dk_norm, s, partials + s.head_size);
}

// Sums groups in order, then adds the sum once to the output.
__global__ void rotary_sum_kernel(u32 groups, u32 head_size, const float* partials, float* dq_norm,
                                  float* dk_norm, bool accumulate) {
  const u64 i = grid_thread();
  if (i >= 2 * head_size) return;
  float total = 0;
  for (u32 group = 0; group < groups; ++group) total += partials[u64{group} * 2 * head_size + i];
  float* out = i < head_size ? dq_norm + i : dk_norm + (i - head_size);
  *out = accumulate ? *out + total : total;
}

// `op`: Rotary or RotaryBackward.
template <class Op>
RotarySizes sizes_of(const Op& op) {
  const RotaryShape& shape = op.shape;
  require(shape.rotated() >= 2 && shape.rotated() % 2 == 0 && shape.rotated() <= shape.head_size,
          "a rotated share of a head is even");
  require(shape.head_size / 2 <= rotary_pairs_max, "a rotated head has at most 256 elements");
  require(shape.rotated() == shape.head_size || !op.q_norm, "normalised heads are rotated whole");
  require(bool(op.q_norm) == bool(op.k_norm), "q and k are normalised, or neither");
  RotarySizes sizes = {.tokens = shape.tokens,
                       .heads = shape.heads,
                       .kv_heads = shape.kv_heads,
                       .head_size = shape.head_size,
                       .rotated = shape.rotated(),
                       .factor = shape.factor,
                       .lanes = rotary_lanes(shape.rotated()),
                       .starts = op.starts,
                       .frequencies = {}};
  for (u32 i = 0; i < shape.rotated() / 2; ++i) sizes.frequencies[i] = op.inverse_frequencies[i];
  return sizes;
}

void rotate(const Rotary& op, float direction, cudaStream_t stream) {
  check_same_precision({op.qkv, op.out});
  check_same_precision({op.q_norm, op.k_norm});
  const Precision parameter = op.q_norm ? op.q_norm.precision : op.qkv.precision;
  const bool vectors = op.shape.head_size % vector_elements == 0 &&
                       rows_of_vectors(op.shape.rotated() / 2, op.qkv, op.out, op.q_norm, op.k_norm);
  for_bool(vectors, [&](auto whole) {
    for_precisions(op.qkv.precision, parameter, [&](auto a, auto p) {
      using A = decltype(a);
      using P = decltype(p);
      launch<rotary_kernel<whole.value, A, P>>(
          rotary_launch(op.shape.rows), stream,
          RotaryArguments<A, P>{.sizes = sizes_of(op),
                                .direction = direction,
                                .qkv = elements<A>(op.qkv),
                                .out = elements<A>(op.out),
                                .norms = {elements<P>(op.q_norm), elements<P>(op.k_norm)},
                                .norm_offset = op.norm_offset,
                                .epsilon = op.epsilon});
    });
  });
}

}  // namespace
}  // namespace cuda

void rotary_cuda(const Rotary& op, cudaStream_t stream) { cuda::rotate(op, 1.0f, stream); }

void rotary_backward_cuda(const RotaryBackward& op, cudaStream_t stream) {
  using namespace cuda;
  if (!op.q_norm) {
    return rotate({.shape = op.shape,
                   .qkv = op.dqkv,
                   .out = op.dqkv,
                   .starts = op.starts,
                   .inverse_frequencies = op.inverse_frequencies},
                  -1.0f, stream);
  }
  require(bool(op.qkv) && op.partials != nullptr, "norms go back from what they were given");
  check_same_precision({op.qkv, op.dqkv});
  check_same_precision({op.q_norm, op.k_norm});
  for_bool(rows_of_vectors(op.shape.head_size / 2, op.qkv, op.dqkv, op.q_norm, op.k_norm), [&](auto whole) {
    for_precisions(op.qkv.precision, op.q_norm.precision, [&](auto a, auto p) {
      using A = decltype(a);
      using P = decltype(p);
      launch<rotary_norms_backward_kernel<whole.value, A, P>>(
          rotary_norms_launch(op.shape.rows), stream,
          NormsBackwardArguments<A, P>{.sizes = sizes_of(op),
                                       .rows = op.shape.rows,
                                       .qkv = elements<A>(op.qkv),
                                       .dqkv = elements<A>(op.dqkv),
                                       .norms = {elements<P>(op.q_norm), elements<P>(op.k_norm)},
                                       .norm_offset = op.norm_offset,
                                       .epsilon = op.epsilon,
                                       .partials = op.partials});
    });
  });
  if (op.dq_norm == nullptr) return;
  launch<rotary_sum_kernel>(rotary_sum_launch(op.shape.head_size), stream,
                            static_cast<u32>(div_up(op.shape.rows, rotary_group_rows)), op.shape.head_size,
                            op.partials, op.dq_norm, op.dk_norm, op.accumulate);
}

}  // namespace tidepool
