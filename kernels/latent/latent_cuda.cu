// Rows of latent attention on the device. Memory is the bottleneck: columns are read and written once, 16
// bytes at a time; only the rotated columns of k, which all heads share, are read again for each head, from
// the cache.
#include "kernels/cuda/device.h"
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/latent/latent_launch.h"

namespace tidepool {
namespace cuda {
namespace {

// Sizes of a row, and what its angles are made of.
struct LatentSizes {
  LatentShape shape;
  const i32* starts;  // or null
  float frequencies[rotary_pairs_max];

  __device__ __forceinline__ u32 head_size() const { return shape.qk_nope_head_dim + shape.qk_rope_head_dim; }
};

struct LatentAngles {
  float cosine[rotary_pairs_max], sine[rotary_pairs_max];
};
// Angles of the block's row. All threads call it; it ends with a barrier.
__device__ __forceinline__ void make_latent_angles(const LatentSizes& s, LatentAngles& angles) {
  u32 position = s.shape.first_token + blockIdx.x % s.shape.tokens;
  if (s.starts != nullptr) position -= static_cast<u32>(s.starts[blockIdx.x]);
  for (u32 i = threadIdx.x; i < s.shape.qk_rope_head_dim / 2; i += blockDim.x) {
    const float angle = static_cast<float>(position) * s.frequencies[i];
    angles.cosine[i] = s.shape.factor * cosf(angle);
    angles.sine[i] = s.shape.factor * sinf(angle);
  }
  __syncthreads();
}

// The same columns of every head: of head h they begin at data + h * stride. Stride 0: heads share them.
template <class T>
struct HeadColumns {
  T* data;
  u32 stride;
};

// Calls fn(head, column) for every eight of `columns` columns of each head that the thread takes.
template <class Fn>
__device__ __forceinline__ void for_head_vectors(u32 heads, u32 columns, Fn fn) {
  const u32 in_head = (columns + vector_elements - 1) / vector_elements;
  for (u32 i = threadIdx.x; i < heads * in_head; i += blockDim.x)
    fn(i / in_head, i % in_head * vector_elements);
}

template <bool whole, class T>
__device__ __forceinline__ void copy_heads(u32 heads, u32 columns, HeadColumns<const T> x, HeadColumns<T> y) {
  for_head_vectors(heads, columns, [&](u32 head, u32 c) {
    float v[8];
    load8<whole>(x.data + head * x.stride, c, columns, v);
    store8<whole>(y.data + head * y.stride, c, columns, v);
  });
}

// Eight pairs of a head in either order of columns. Interleaved: pair i is columns 2i and 2i + 1; otherwise i
// and i + half.
template <bool whole, class T>
__device__ __forceinline__ void load_pairs(const T* x, u32 pair, u32 half, bool interleaved, float (&a)[8],
                                           float (&b)[8]) {
  if (!interleaved) {
    load8<whole>(x, pair, half, a);
    load8<whole>(x + half, pair, half, b);
    return;
  }
  float low[8], high[8];
  load8<whole>(x, 2 * pair, 2 * half, low);
  load8<whole>(x, 2 * pair + 8, 2 * half, high);
  UNROLL for (u32 i = 0; i < 4; ++i) {
    a[i] = low[2 * i], b[i] = low[2 * i + 1];
    a[4 + i] = high[2 * i], b[4 + i] = high[2 * i + 1];
  }
}
template <bool whole, class T>
__device__ __forceinline__ void store_pairs(T* x, u32 pair, u32 half, bool interleaved, const float (&a)[8],
                                            const float (&b)[8]) {
  if (!interleaved) {
    store8<whole>(x, pair, half, a);
    store8<whole>(x + half, pair, half, b);
    return;
  }
  float low[8], high[8];
  UNROLL for (u32 i = 0; i < 4; ++i) {
    low[2 * i] = a[i], low[2 * i + 1] = b[i];
    high[2 * i] = a[4 + i], high[2 * i + 1] = b[4 + i];
  }
  store8<whole>(x, 2 * pair, 2 * half, low);
  store8<whole>(x, 2 * pair + 8, 2 * half, high);
}

// Rotates eight pairs; direction: 1 forward, -1 back.
__device__ __forceinline__ void turn_pairs(const LatentAngles& angles, u32 pair, u32 half, float direction,
                                           float (&a)[8], float (&b)[8]) {
  UNROLL for (u32 i = 0; i < 8; ++i) {
    if (pair + i >= half) continue;
    const float c = angles.cosine[pair + i], s = direction * angles.sine[pair + i], x = a[i], y = b[i];
    a[i] = fmaf(-y, s, x * c);
    b[i] = fmaf(x, s, y * c);
  }
}

// y = the rotated columns x of every head, rotated. y has its pairs in columns i and i + U / 2.
template <bool whole, class T>
__device__ __forceinline__ void rotate_heads(const LatentShape& s, const LatentAngles& angles,
                                             HeadColumns<const T> x, HeadColumns<T> y) {
  const u32 half = s.qk_rope_head_dim / 2;
  for_head_vectors(s.heads, half, [&](u32 head, u32 pair) {
    float a[8], b[8];
    load_pairs<whole>(x.data + head * x.stride, pair, half, s.interleaved, a, b);
    turn_pairs(angles, pair, half, 1.0f, a, b);
    store_pairs<whole>(y.data + head * y.stride, pair, half, false, a, b);
  });
}

template <class T>
struct LatentRowsArguments {
  LatentSizes sizes;
  const T *q, *kv, *low;
  T* out;
};

template <bool whole, class T>
__global__ void __launch_bounds__(latent_threads) latent_rows_kernel(LatentRowsArguments<T> op) {
  BLOCK_SHARED(LatentAngles, angles);
  const LatentShape& s = op.sizes.shape;
  make_latent_angles(op.sizes, angles);
  const u64 row = blockIdx.x;
  const u32 size = op.sizes.head_size(), kv_size = s.qk_nope_head_dim + s.v_head_dim;
  const T *q = op.q + row * s.q_columns(), *kv = op.kv + row * s.kv_columns();
  const T* const shared = op.low + row * s.low_columns() + s.kv_lora_rank;
  T* const out_q = op.out + row * s.columns();
  T *const out_k = out_q + s.q_columns(), *const out_v = out_k + s.q_columns();
  copy_heads<whole, T>(s.heads, s.qk_nope_head_dim, {q, size}, {out_q, size});
  rotate_heads<whole, T>(s, angles, {q + s.qk_nope_head_dim, size}, {out_q + s.qk_nope_head_dim, size});
  copy_heads<whole, T>(s.heads, s.qk_nope_head_dim, {kv, kv_size}, {out_k, size});
  rotate_heads<whole, T>(s, angles, {shared, 0}, {out_k + s.qk_nope_head_dim, size});
  copy_heads<whole, T>(s.heads, s.v_head_dim, {kv + s.qk_nope_head_dim, kv_size}, {out_v, s.v_head_dim});
}

template <class T>
struct LatentRowsBackwardArguments {
  LatentSizes sizes;
  const T* dout;
  T *dq, *dkv, *dlow;
};

// dx = gradient of k's rotated columns, from the gradients dy of every head, added in order. A thread takes a
// pair: its neighbours read the columns beside.
template <class T>
__device__ __forceinline__ void sum_shared_columns(const LatentShape& s, const LatentAngles& angles,
                                                   HeadColumns<const T> dy, T* dx) {
  const u32 half = s.qk_rope_head_dim / 2;
  for (u32 i = threadIdx.x; i < half; i += blockDim.x) {
    float a = 0, b = 0;
    for (u32 head = 0; head < s.heads; ++head) {
      a += widened(dy.data[head * dy.stride + i]);
      b += widened(dy.data[head * dy.stride + i + half]);
    }
    const float cosine = angles.cosine[i], sine = angles.sine[i];
    dx[s.interleaved ? 2 * i : i] = narrowed<T>(fmaf(b, sine, a * cosine));
    dx[s.interleaved ? 2 * i + 1 : i + half] = narrowed<T>(fmaf(-a, sine, b * cosine));
  }
}

template <bool whole, class T>
__global__ void __launch_bounds__(latent_threads)
    latent_rows_backward_kernel(LatentRowsBackwardArguments<T> op) {
  BLOCK_SHARED(LatentAngles, angles);
  const LatentShape& s = op.sizes.shape;
  make_latent_angles(op.sizes, angles);
  const u64 row = blockIdx.x;
  const u32 size = op.sizes.head_size(), kv_size = s.qk_nope_head_dim + s.v_head_dim,
            half = s.qk_rope_head_dim / 2;
  T *dq = op.dq + row * s.q_columns(), *dkv = op.dkv + row * s.kv_columns();
  const T* const from_q = op.dout + row * s.columns();
  const T *const from_k = from_q + s.q_columns(), *const from_v = from_k + s.q_columns();
  sum_shared_columns<T>(s, angles, {from_k + s.qk_nope_head_dim, size},
                        op.dlow + row * s.low_columns() + s.kv_lora_rank);
  copy_heads<whole, T>(s.heads, s.qk_nope_head_dim, {from_q, size}, {dq, size});
  for_head_vectors(s.heads, half, [&](u32 head, u32 pair) {
    float a[8], b[8];
    load_pairs<whole>(from_q + s.qk_nope_head_dim + head * size, pair, half, false, a, b);
    turn_pairs(angles, pair, half, -1.0f, a, b);
    store_pairs<whole>(dq + s.qk_nope_head_dim + head * size, pair, half, s.interleaved, a, b);
  });
  copy_heads<whole, T>(s.heads, s.qk_nope_head_dim, {from_k, size}, {dkv, kv_size});
  copy_heads<whole, T>(s.heads, s.v_head_dim, {from_v, s.v_head_dim}, {dkv + s.qk_nope_head_dim, kv_size});
}

template <bool whole, class X, class Y>
__global__ void __launch_bounds__(256)
    copy_columns_kernel(u32 rows, u32 columns, const X* x, u32 x_stride, Y* y, u32 y_stride, bool add) {
  const u64 in_row = (columns + vector_elements - 1) / vector_elements, vectors = rows * in_row;
  for (u64 i = grid_thread(); i < vectors; i += grid_threads()) {
    const u64 row = i / in_row, c = i % in_row * vector_elements;
    float v[8];
    load8<whole>(x + row * x_stride, c, columns, v);
    if (add) {
      float before[8];
      load8<whole>(y + row * y_stride, c, columns, before);
      UNROLL for (u32 i = 0; i < 8; ++i) v[i] += before[i];
    }
    store8<whole>(y + row * y_stride, c, columns, v);
  }
}

// `op`: LatentRows or LatentRowsBackward.
template <class Op>
LatentSizes latent_sizes(const Op& op) {
  const LatentShape& s = op.shape;
  require(s.qk_rope_head_dim % 2 == 0 && s.qk_rope_head_dim / 2 <= rotary_pairs_max,
          "latent rows: a head rotates an even number of columns, at most 256");
  require(s.rows == 0 || (s.tokens > 0 && s.rows % s.tokens == 0), "latent rows: sequences are whole");
  LatentSizes sizes = {.shape = s, .starts = op.starts, .frequencies = {}};
  for (u32 i = 0; i < s.qk_rope_head_dim / 2; ++i) sizes.frequencies[i] = op.inverse_frequencies[i];
  return sizes;
}

// Every part of a head or row begins at a multiple of eight columns.
bool parts_of_vectors(const LatentShape& s) {
  return s.qk_nope_head_dim % vector_elements == 0 && s.qk_rope_head_dim % (2 * vector_elements) == 0 &&
         s.v_head_dim % vector_elements == 0 && s.kv_lora_rank % vector_elements == 0;
}

}  // namespace
}  // namespace cuda

void latent_rows_cuda(const LatentRows& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.q, op.kv, op.low, op.out});
  const LatentSizes sizes = latent_sizes(op);
  if (op.shape.rows == 0) return;
  const bool vectors = parts_of_vectors(op.shape) && rows_of_vectors(0, op.q, op.kv, op.low, op.out);
  for_bool(vectors, [&](auto whole) {
    for_precision(op.q.precision, [&](auto element) {
      using T = decltype(element);
      launch<latent_rows_kernel<whole.value, T>>(latent_rows_launch(op.shape.rows), stream,
                                                 LatentRowsArguments<T>{.sizes = sizes,
                                                                        .q = elements<T>(op.q),
                                                                        .kv = elements<T>(op.kv),
                                                                        .low = elements<T>(op.low),
                                                                        .out = elements<T>(op.out)});
    });
  });
}

void latent_rows_backward_cuda(const LatentRowsBackward& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.dout, op.dq, op.dkv, op.dlow});
  const LatentSizes sizes = latent_sizes(op);
  if (op.shape.rows == 0) return;
  const bool vectors = parts_of_vectors(op.shape) && rows_of_vectors(0, op.dout, op.dq, op.dkv, op.dlow);
  for_bool(vectors, [&](auto whole) {
    for_precision(op.dout.precision, [&](auto element) {
      using T = decltype(element);
      launch<latent_rows_backward_kernel<whole.value, T>>(
          latent_rows_launch(op.shape.rows), stream,
          LatentRowsBackwardArguments<T>{.sizes = sizes,
                                         .dout = elements<T>(op.dout),
                                         .dq = elements<T>(op.dq),
                                         .dkv = elements<T>(op.dkv),
                                         .dlow = elements<T>(op.dlow)});
    });
  });
}

void copy_columns_cuda(const CopyColumns& op, cudaStream_t stream) {
  using namespace cuda;
  require(op.columns <= op.x_stride && op.columns <= op.y_stride, "copied columns are a row's first");
  if (op.rows == 0 || op.columns == 0) return;
  const bool vectors = op.x_stride % vector_elements == 0 && op.y_stride % vector_elements == 0 &&
                       rows_of_vectors(op.columns, op.x, op.y);
  for_bool(vectors, [&](auto whole) {
    for_precisions(op.x.precision, op.y.precision, [&](auto x, auto y) {
      using X = decltype(x);
      using Y = decltype(y);
      launch<copy_columns_kernel<whole.value, X, Y>>(copy_columns_launch(op.rows, op.columns), stream,
                                                     op.rows, op.columns, elements<X>(op.x), op.x_stride,
                                                     elements<Y>(op.y), op.y_stride, op.add);
    });
  });
}

}  // namespace tidepool
