// Rotary on the device. Memory is the bottleneck: q and k are read and written once, 16 bytes at a time. In
// place and without norms, only their rotated share is.
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/rotary/rotary_launch.h"
#include "kernels/rotary/rotary_pairs.cuh"

namespace tidepool {
namespace cuda {
namespace {

// Writes the row's heads of v, each normalised; all threads call it.
template <bool whole, class T>
__device__ __forceinline__ void normalise_values(const RotarySizes& s, float epsilon, const T* from, T* to) {
  const RotaryPlace place(s);
  for (u32 first = 0; first < s.kv_heads; first += place.groups) {  // as heads of q and k
    const u32 head = first + place.group;
    const bool mine = head < s.kv_heads;
    RotaryPairs x = {};
    if (mine) x.load<whole>(from + u64{head} * s.head_size, place.pair, s);
    x.scale(head_rstd(x, epsilon, s));
    if (mine) x.store<whole>(to + u64{head} * s.head_size, place.pair, s);
  }
}

// Gradient of a head of v before its norm, in place of that after it.
__device__ __forceinline__ void values_gradient(RotaryPairs& dy, const RotaryPairs& x, float epsilon,
                                                const RotarySizes& s) {
  const float rstd = head_rstd(x, epsilon, s);
  float sum = 0;
  UNROLL for (u32 i = 0; i < 8; ++i) {
    sum = fmaf(dy.a[i], x.a[i] * rstd, sum);
    sum = fmaf(dy.b[i], x.b[i] * rstd, sum);
  }
  const float mean = group_sum(sum, s.lanes) / static_cast<float>(s.head_size);
  UNROLL for (u32 i = 0; i < 8; ++i) {
    dy.a[i] = fmaf(-(x.a[i] * rstd), mean, dy.a[i]) * rstd;
    dy.b[i] = fmaf(-(x.b[i] * rstd), mean, dy.b[i]) * rstd;
  }
}

// Copies the row's heads of v; all threads call it.
template <bool whole, class T>
__device__ __forceinline__ void copy_values(const RotarySizes& s, const T* from, T* to) {
  const u32 columns = s.kv_heads * s.head_size;
  for (u32 c = vector_elements * threadIdx.x; c < columns; c += vector_elements * blockDim.x) {
    float x[8];
    load8<whole>(from, c, columns, x);
    store8<whole>(to, c, columns, x);
  }
}

// A: type of activations. P: type of parameters.
template <class A, class P>
struct RotaryArguments {
  RotarySizes sizes;
  float direction;
  const A* in;
  A* out;  // may be `in`
  RotaryRows in_rows, out_rows;
  const P* norms[2];  // q's and k's, or null
  float norm_offset, epsilon;
};

// Weights of a head's norm, with their offset; `op` has both. Lanes past the head run along with their warp
// and load no weight.
template <bool whole, class Op, class P>
__device__ __forceinline__ RotaryPairs weight_pairs(const Op& op, const P* weight, u32 pair) {
  RotaryPairs w = {};
  if (pair >= op.sizes.turned + op.sizes.rest) return w;
  w.load<whole>(weight, pair, op.sizes);
  UNROLL for (u32 i = 0; i < 8; ++i) {
    w.a[i] += op.norm_offset;
    w.b[i] += op.norm_offset;
  }
  return w;
}

template <bool whole, class A, class P>
__device__ __forceinline__ void normalise(RotaryPairs& x, const RotaryArguments<A, P>& op, const P* weight,
                                          u32 pair) {
  const float rstd = head_rstd(x, op.epsilon, op.sizes);
  const RotaryPairs w = weight_pairs<whole>(op, weight, pair);
  UNROLL for (u32 i = 0; i < 8; ++i) {
    x.a[i] = x.a[i] * rstd * w.a[i];
    x.b[i] = x.b[i] * rstd * w.b[i];
  }
}

template <bool whole, class A, class P>
__global__ void __launch_bounds__(rotary_threads) rotary_kernel(RotaryArguments<A, P> op) {
  BLOCK_SHARED(RotaryAngles, angles);
  const RotarySizes& s = op.sizes;
  make_angles(s, blockIdx.x, op.direction, angles);
  const RotaryPlace place(s);
  const u32 heads = s.heads + s.kv_heads;
  const bool in_place = op.out == op.in, norms = op.norms[0] != nullptr;
  const bool grows = s.query_growth != 0;
  const bool changes = place.pair < s.turned || norms || !in_place || grows;  // the lane's elements
  for (u32 from = 0; from < heads; from += place.groups) {  // lanes without a head run along with their warp
    const u32 head = from + place.group;
    const bool mine = head < heads && changes;
    RotaryPairs x = {};
    if (mine) x.load<whole>(op.in + op.in_rows.at(blockIdx.x, head), place.pair, s);
    // Lanes without a head load weights too: those of q, if no head of k is here.
    const u32 which = head < s.heads || s.kv_heads == 0 ? 0 : 1;
    if (norms) normalise<whole>(x, op, op.norms[which], place.pair);
    x.turn(angles, place.pair, s.turned);
    if (grows && head < s.heads) x.scale(angles.query);
    if (mine) x.store<whole>(op.out + op.out_rows.at(blockIdx.x, head), place.pair, s);
  }
  const A* const values = op.in + op.in_rows.at(blockIdx.x, op.in_rows.values);
  A* const to = op.out + op.out_rows.at(blockIdx.x, op.out_rows.values);
  if (s.values == RotaryValues::given) return;
  if (s.values != RotaryValues::copied) return normalise_values<whole>(s, op.epsilon, values, to);
  if (!in_place) copy_values<whole>(s, values, to);
}

template <class A, class P>
struct NormsBackwardArguments {
  RotarySizes sizes;
  u32 rows;
  const A* qkv;
  const A* dy;                   // gradient of the output
  A* dx;                         // may be dy, or qkv
  RotaryRows in_rows, out_rows;  // in_rows: of qkv and dx
  const P* norms[2];
  float norm_offset, epsilon;
  float* partials;  // [groups of rows, q and k, D]
};

// dx = rstd (g - xhat mean(g xhat)), g = dy weight. Overwrites dy with dx and adds to dweight.
template <bool whole, class A, class P>
__device__ __forceinline__ void norm_backward(RotaryPairs& dy, const RotaryPairs& x,
                                              const NormsBackwardArguments<A, P>& op, const P* weight,
                                              u32 pair, RotaryPairs& dweight) {
  const RotarySizes& s = op.sizes;
  const float rstd = head_rstd(x, op.epsilon, s);
  const RotaryPairs w = weight_pairs<whole>(op, weight, pair);
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
__device__ __forceinline__ void write_partials(const RotaryPairs& dweight, const RotarySizes& s,
                                               float* partials) {
  BLOCK_SHARED(float[rotary_threads][17], sums);  // 17: lanes' columns in different banks
  for (u32 i = 0; i < 8; ++i) {
    sums[threadIdx.x][i] = dweight.a[i];
    sums[threadIdx.x][8 + i] = dweight.b[i];
  }
  __syncthreads();
  for (u32 c = threadIdx.x; c < s.head_size; c += blockDim.x) {
    const bool turned = c < 2 * s.turned;
    const u32 in_part = turned ? c : c - 2 * s.turned, apart = turned ? s.turned : s.rest;
    const bool neighbours = turned && s.neighbours;
    const u32 pair = neighbours ? c / 2 : in_part % apart + (turned ? 0 : s.turned);
    const u32 place = pair % 8 + (neighbours ? c % 2 : in_part / apart) * 8;
    float total = 0;
    for (u32 thread = pair / 8; thread < rotary_threads; thread += s.lanes) total += sums[thread][place];
    partials[c] = total;
  }
  __syncthreads();
}

// Backward of heads [first, first + count) of a row with norm `weight`; adds their share of the weight's
// gradient to `dweight`. The heads of q are the first.
template <bool whole, class A, class P>
__device__ __forceinline__ void backward_heads(const NormsBackwardArguments<A, P>& op,
                                               const RotaryAngles& angles, u64 row, u32 first, u32 count,
                                               const P* weight, RotaryPairs& dweight) {
  const RotarySizes& s = op.sizes;
  const RotaryPlace place(s);
  for (u32 from = 0; from < count; from += place.groups) {  // lanes without a head run along with their warp
    const bool mine = from + place.group < count;
    const u32 head = first + from + place.group;
    RotaryPairs x = {}, dy = {};
    if (mine) {
      x.load<whole>(op.qkv + op.in_rows.at(row, head), place.pair, s);
      dy.load<whole>(op.dy + op.out_rows.at(row, head), place.pair, s);
    }
    dy.turn(angles, place.pair, s.turned);
    if (s.query_growth != 0 && first == 0) dy.scale(angles.query);
    norm_backward<whole>(dy, x, op, weight, place.pair, dweight);
    if (first != 0 && s.values == RotaryValues::normalised_keys) {
      RotaryPairs dv = {};
      if (mine) dv.load<whole>(op.dy + op.out_rows.at(row, head + s.kv_heads), place.pair, s);
      values_gradient(dv, x, op.epsilon, s);
      dy.add(dv);
    }
    if (mine) dy.store<whole>(op.dx + op.in_rows.at(row, head), place.pair, s);
  }
}

// Backward of a row's heads of v, which have an array of their own.
template <bool whole, class A, class P>
__device__ __forceinline__ void backward_values(const NormsBackwardArguments<A, P>& op, u64 row) {
  const RotarySizes& s = op.sizes;
  const RotaryPlace place(s);
  for (u32 from = 0; from < s.kv_heads; from += place.groups) {
    const bool mine = from + place.group < s.kv_heads;
    const u32 head = s.heads + s.kv_heads + from + place.group;
    RotaryPairs x = {}, dy = {};
    if (mine) {
      x.load<whole>(op.qkv + op.in_rows.at(row, head), place.pair, s);
      dy.load<whole>(op.dy + op.out_rows.at(row, head), place.pair, s);
    }
    values_gradient(dy, x, op.epsilon, s);
    if (mine) dy.store<whole>(op.dx + op.in_rows.at(row, head), place.pair, s);
  }
}

template <bool whole, class A, class P>
__global__ void __launch_bounds__(rotary_threads)
    rotary_norms_backward_kernel(NormsBackwardArguments<A, P> op) {
  BLOCK_SHARED(RotaryAngles, angles);
  const RotarySizes& s = op.sizes;
  const u32 values = s.heads + s.kv_heads;  // first head of v
  const u32 begin = blockIdx.x * rotary_group_rows;
  const u32 end = op.rows - begin < rotary_group_rows ? op.rows : begin + rotary_group_rows;
  RotaryPairs dq_norm = {}, dk_norm = {};
  for (u32 row = begin; row < end; ++row) {
    make_angles(s, row, -1.0f, angles);
    backward_heads<whole>(op, angles, row, 0, s.heads, op.norms[0], dq_norm);
    backward_heads<whole>(op, angles, row, s.heads, s.kv_heads, op.norms[1], dk_norm);
    if (s.values == RotaryValues::normalised) backward_values<whole>(op, row);
    if (s.values == RotaryValues::copied && op.dx != op.dy)
      copy_values<whole>(s, op.dy + op.out_rows.at(row, values), op.dx + op.in_rows.at(row, values));
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
  if (i >= (dk_norm != nullptr ? 2 : 1) * head_size) return;
  float total = 0;
  for (u32 group = 0; group < groups; ++group) total += partials[u64{group} * 2 * head_size + i];
  float* out = i < head_size ? dq_norm + i : dk_norm + (i - head_size);
  *out = accumulate ? *out + total : total;
}

// The halves of a head's rotated share, and its rest, are vectors of eight elements. The rest may be an odd
// number of vectors: then its last eight pairs have no second elements.
bool parts_of_vectors(const RotaryShape& s) {
  return s.head_size % vector_elements == 0 && s.rotated() / 2 % vector_elements == 0;
}
bool heads_of_vectors(const RotaryShape& s) {
  return parts_of_vectors(s) && s.q_stride() % vector_elements == 0 && !s.neighbours;
}

// `op`: Rotary or RotaryBackward. Pairs depend on the head alone, not on the arrays' alignment, and so do the
// bits of sums over them.
template <class Op>
RotarySizes sizes_of(const Op& op) {
  const RotaryShape& shape = op.shape;
  const u32 turned = shape.rotated() / 2, others = shape.head_size - shape.rotated();
  const u64 rest = div_up(others, 2);
  RotarySizes sizes = {
      .tokens = shape.tokens,
      .first_token = shape.first_token,
      .heads = shape.heads,
      .kv_heads = shape.key_heads(),
      .head_size = shape.head_size,
      .turned = turned,
      .rest = static_cast<u32>(parts_of_vectors(shape) ? round_up(rest, vector_elements) : rest),
      .factor = shape.factor,
      .neighbours = shape.neighbours,
      .query_growth = shape.query_growth,
      .query_period = shape.query_period,
      .values = shape.values,
      .lanes = rotary_lanes(shape.head_size),
      .starts = op.starts,
      .holes = op.holes,
      .frequencies = {}};
  for (u32 i = 0; i < turned; ++i) sizes.frequencies[i] = op.inverse_frequencies[i];
  return sizes;
}

template <class Op>
void require_shape(const Op& op) {
  const RotaryShape& shape = op.shape;
  require(shape.rotated() >= 2 && shape.rotated() % 2 == 0 && shape.rotated() <= shape.head_size,
          "a rotated share of a head is even");
  require(shape.head_size <= 2 * rotary_pairs_max, "a rotated head has at most 512 elements");
  require(shape.q_stride() >= shape.head_size, "heads of q do not overlap");
  require(shape.query_growth == 0 || shape.query_period > 0, "q grows in periods of some positions");
  require(bool(op.k_norm) == (shape.key_heads() != 0 && bool(op.q_norm)),
          "q and k are normalised, or neither");
  require(shape.values == RotaryValues::copied || op.q_norm, "v is normalised only with q and k");
  require(!shape.keys_are_values() || shape.q_stride() == shape.head_size,
          "keys that are values need no gates");
}

RotaryRows input_rows(const RotaryShape& s) {
  const u32 values = s.heads + (s.keys_are_values() ? 0 : s.key_heads());
  return {s.heads, s.head_size, s.q_stride(), s.in_columns(), values};
}
RotaryRows output_rows(const RotaryShape& s) {
  return {s.heads, s.head_size, s.head_size, s.columns(), s.heads + s.kv_heads};
}

// Arrays of a rotation, and whether it turns forward or back.
struct Rotation {
  ConstValues in;
  Values out;
  RotaryRows in_rows, out_rows;
  float direction;  // 1 or -1
};

// `op`: Rotary, or RotaryBackward without norms.
template <class Op>
void rotate(const Op& op, const Rotation& r, cudaStream_t stream) {
  require_shape(op);
  check_same_precision({r.in, r.out});
  if (op.k_norm) check_same_precision({op.q_norm, op.k_norm});
  const Precision parameter = op.q_norm ? op.q_norm.precision : r.in.precision;
  const bool vectors = heads_of_vectors(op.shape) && rows_of_vectors(0, r.in, r.out, op.q_norm, op.k_norm);
  for_bool(vectors, [&](auto whole) {
    for_precisions(r.in.precision, parameter, [&](auto a, auto p) {
      using A = decltype(a);
      using P = decltype(p);
      launch<rotary_kernel<whole.value, A, P>>(
          rotary_launch(op.shape.rows), stream,
          RotaryArguments<A, P>{.sizes = sizes_of(op),
                                .direction = r.direction,
                                .in = elements<A>(r.in),
                                .out = elements<A>(r.out),
                                .in_rows = r.in_rows,
                                .out_rows = r.out_rows,
                                .norms = {elements<P>(op.q_norm), elements<P>(op.k_norm)},
                                .norm_offset = op.norm_offset,
                                .epsilon = op.epsilon});
    });
  });
}

void norms_backward(const RotaryBackward& op, Values dx, cudaStream_t stream) {
  require_shape(op);
  require(bool(op.qkv) && op.partials != nullptr, "norms go back from what they were given");
  check_same_precision({op.qkv, op.dqkv, dx});
  if (op.k_norm) check_same_precision({op.q_norm, op.k_norm});
  const bool vectors =
      heads_of_vectors(op.shape) && rows_of_vectors(0, op.qkv, op.dqkv, dx, op.q_norm, op.k_norm);
  for_bool(vectors, [&](auto whole) {
    for_precisions(op.qkv.precision, op.q_norm.precision, [&](auto a, auto p) {
      using A = decltype(a);
      using P = decltype(p);
      launch<rotary_norms_backward_kernel<whole.value, A, P>>(
          rotary_norms_launch(op.shape.rows), stream,
          NormsBackwardArguments<A, P>{.sizes = sizes_of(op),
                                       .rows = op.shape.rows,
                                       .qkv = elements<A>(op.qkv),
                                       .dy = elements<A>(op.dqkv),
                                       .dx = elements<A>(dx),
                                       .in_rows = input_rows(op.shape),
                                       .out_rows = output_rows(op.shape),
                                       .norms = {elements<P>(op.q_norm), elements<P>(op.k_norm)},
                                       .norm_offset = op.norm_offset,
                                       .epsilon = op.epsilon,
                                       .partials = op.partials});
    });
  });
}

}  // namespace
}  // namespace cuda

void rotary_cuda(const Rotary& op, cudaStream_t stream) {
  using namespace cuda;
  require(op.shape.in_columns() == op.shape.columns() || op.out.data != op.qkv.data,
          "rows come out with other columns: into another array");
  rotate(op,
         {.in = op.qkv,
          .out = op.out,
          .in_rows = input_rows(op.shape),
          .out_rows = output_rows(op.shape),
          .direction = 1},
         stream);
}

void rotary_backward_cuda(const RotaryBackward& op, cudaStream_t stream) {
  using namespace cuda;
  const Values dx = op.dx ? op.dx : op.dqkv;
  require(op.shape.in_columns() == op.shape.columns() || dx.data != op.dqkv.data,
          "the gradient's rows have other columns: dx is another array");
  if (!op.q_norm) {
    return rotate(op,
                  {.in = op.dqkv,
                   .out = dx,
                   .in_rows = output_rows(op.shape),
                   .out_rows = input_rows(op.shape),
                   .direction = -1},
                  stream);
  }
  norms_backward(op, dx, stream);
  if (op.dq_norm == nullptr) return;
  launch<rotary_sum_kernel>(rotary_sum_launch(op.shape.head_size), stream,
                            static_cast<u32>(div_up(op.shape.rows, rotary_group_rows)), op.shape.head_size,
                            op.partials, op.dq_norm, op.dk_norm, op.accumulate);
}

}  // namespace tidepool
