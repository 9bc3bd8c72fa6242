// Shared parts of all attention kernels: arguments, addresses of a head's rows, base-2 exponentials, the
// place of delta.
#pragma once

#include "kernels/attention/attention_launch.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/device_param.h"
#include "kernels/cuda/soft_cap.h"
#include "kernels/dropout/philox_device.h"

namespace tidepool::cuda {

inline constexpr float log2_of_e = 1.4426950408889634f;

// A kernel's sizes, with values that would cost a division or a root in each thread.
struct AttentionSizes {
  u32 first, tokens;  // queries are of tokens [first, tokens), keys of [0, tokens)
  u32 heads, head_size, value_size;
  u32 group;  // query heads that read one kv head
  u32 query_columns, key_columns, qkv_columns, out_columns;
  u32 key_stride, keys_begin;  // of the array with k and v: from row to row, and to k's first column
  u32 window;                  // 0: no limit
  float scale, scale_log2;     // factor on scores; the same times log2(e)
  float raw_cap, inverse_cap;  // AttentionShape::raw_cap(), and 1 over it; 0: none
};

// RETURNS: a product of query and key as the softmax sees it, before the factor on scores, and its
// derivative by the product. T: as for tanh_of().
template <class T>
__device__ __forceinline__ Capped capped_score(const AttentionSizes& sizes, float product) {
  return capped<T>(product, sizes.raw_cap, sizes.inverse_cap);
}

template <class T>
struct AttentionForwardArguments {
  AttentionSizes sizes;
  const T* qkv;
  const T* keys;  // the array with k and v: qkv, or a tile's past
  T* out;
  float* lse;
  const i32* starts;
  const KeyHole* holes;  // or null
  DropoutRow dropout;
  DeviceParam sinks;
};

template <class T>
struct AttentionBackwardArguments {
  AttentionSizes sizes;
  const T* qkv;
  const T* keys;  // the array with k and v: qkv, or a tile's past
  const T* out;
  const float* lse;
  const T* dout;
  T* dqkv;
  float* dpast;  // of a tile: what dk and dv are added to; else null
  const i32* starts;
  const KeyHole* holes;  // or null
  DropoutRow dropout;
};

// Rows of one head: `rows` of them from `first` on, `columns` elements each, `stride` apart.
template <class T>
struct HeadRows {
  T* first;
  u64 stride;
  u32 rows, columns;

  __device__ __forceinline__ T* row(u32 i) const { return first + i * stride; }
};

// HeadView of head_view.h for device code. `head` counts query heads over all sequences.
struct DeviceHead {
  AttentionSizes sizes;
  u32 head;

  // Rows are tokens of the sequence. A tile's queries are the only rows of its arrays.
  __device__ __forceinline__ u64 of_row(u32 row) const {
    return u64{head / sizes.heads} * (sizes.tokens - sizes.first) + row - sizes.first;
  }
  __device__ __forceinline__ u32 of_sequence() const { return head % sizes.heads; }
  __device__ __forceinline__ u32 kv_head() const { return of_sequence() / sizes.group; }
  __device__ __forceinline__ u64 lse(u32 row) const {
    return u64{head} * (sizes.tokens - sizes.first) + row - sizes.first;
  }
  __device__ __forceinline__ u64 dropout(u32 row, u32 key) const { return lse(row) * sizes.tokens + key; }
  __device__ __forceinline__ u32 rows_from(u32 row) const {
    return row < sizes.tokens ? sizes.tokens - row : 0;
  }

  // AttentionShape::first_seen
  __device__ __forceinline__ u32 first_seen(u32 row, u32 document) const {
    return sizes.window != 0 && row >= document + sizes.window ? row + 1 - sizes.window : document;
  }
  // RETURNS: the first key that a row sees. Rows past the end see the same as the last row.
  __device__ __forceinline__ u32 start(const i32* starts, u32 row) const {
    row = min(row, sizes.tokens - 1);
    return first_seen(row, starts == nullptr ? 0 : static_cast<u32>(starts[of_row(row)]));
  }

  // RETURNS: a row's hole. Rows past the end have that of the last row.
  __device__ __forceinline__ KeyHole hole(const KeyHole* holes, u32 row) const {
    return holes == nullptr ? KeyHole{} : holes[of_row(min(row, sizes.tokens - 1))];
  }

  // RETURNS: rows from `row` on of q in [B, T, (NH + NKV) D + NKV V].
  template <class T>
  __device__ __forceinline__ HeadRows<T> queries(T* base, u32 row) const {
    return {base + of_row(row) * sizes.qkv_columns + u64{of_sequence()} * sizes.head_size, sizes.qkv_columns,
            rows_from(row), sizes.head_size};
  }
  // RETURNS: rows from `row` on of k or v in that array, or in a tile's past.
  template <class T>
  __device__ __forceinline__ HeadRows<T> keys(T* base, u32 row) const {
    return {key_row(base, row) + kv_head() * sizes.head_size, sizes.key_stride, rows_from(row),
            sizes.head_size};
  }
  template <class T>
  __device__ __forceinline__ HeadRows<T> values(T* base, u32 row) const {
    return {key_row(base, row) + sizes.key_columns + kv_head() * sizes.value_size, sizes.key_stride,
            rows_from(row), sizes.value_size};
  }
  // RETURNS: rows from `row` on in [B, T, NH V].
  template <class T>
  __device__ __forceinline__ HeadRows<T> out(T* base, u32 row) const {
    return {base + of_row(row) * sizes.out_columns + of_sequence() * sizes.value_size, sizes.out_columns,
            rows_from(row), sizes.value_size};
  }

 private:
  template <class T>
  __device__ __forceinline__ T* key_row(T* base, u32 row) const {
    return base + (u64{head / sizes.heads} * sizes.tokens + row) * sizes.key_stride + sizes.keys_begin;
  }
};

inline constexpr u32 infinity_bits = 0x7f80'0000;

// RETURNS: the reference of exponents: the maximum that a row has seen. A row that has seen nothing yet (its
// document starts later) must not subtract infinity from itself.
__device__ __forceinline__ float level_of(float maximum) {
  return maximum == -__uint_as_float(infinity_bits) ? 0.0f : maximum;
}

// Softmax of a row that has met no key yet: maximum of unscaled scores, sum of exp(scale (score - maximum)).
// A sink counts as a score that has been met already.
struct SoftmaxStart {
  float maximum, sum;
};
template <class T>
__device__ __forceinline__ SoftmaxStart softmax_start(const AttentionForwardArguments<T>& op,
                                                      const DeviceHead& head) {
  if (op.sinks.data == nullptr) return {-__uint_as_float(infinity_bits), 0.0f};
  return {op.sinks.at(head.of_sequence()) / op.sizes.scale, 1.0f};
}

// 2^x to 2 ulp; results below 2^-126 are 0.
__device__ __forceinline__ float exp2_fast(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

// RETURNS: true if dropout keeps this element.
__device__ __forceinline__ bool dropout_keeps(const DropoutRow& dropout, u64 element) {
  const uint4 words = philox_words(dropout.key, element / 4);
  const u32 which = static_cast<u32>(element) % 4;
  const u32 word = which == 0 ? words.x : which == 1 ? words.y : which == 2 ? words.z : words.w;
  return word >= dropout.threshold;
}

// delta = dout . out of each row lies at the future place of its dq: in the first four bytes of the head's q
// columns of dqkv. Every kernel that needs delta has read it before the kernel that writes dq reaches that
// row, so no workspace is needed. (A head of a single half has only two bytes: there delta is recomputed, one
// product.)
__device__ __forceinline__ void put_delta(float* place, float delta) { *place = delta; }
template <class Half>
__device__ __forceinline__ void put_delta(Half* place, float delta) {
  const u32 bits = __float_as_uint(delta);
  place[0].bits = static_cast<u16>(bits);
  place[1].bits = static_cast<u16>(bits >> 16);
}
__device__ __forceinline__ float get_delta(const float* place) { return *place; }
template <class Half>
__device__ __forceinline__ float get_delta(const Half* place) {
  return __uint_as_float(u32{place[0].bits} | u32{place[1].bits} << 16);
}
template <class T>
__device__ __forceinline__ bool delta_has_room(const AttentionSizes& sizes) {
  return sizes.head_size * sizeof(T) >= sizeof(float);
}

// Values of a row for backward: p = 2^(score scale log2(e) - lse2). Rows past the end have p = 0.
struct RowStatistics {
  float lse2, delta;
  u32 start;     // the row's first visible key
  KeyHole hole;  // kernels with holes only
};
template <class T>
__device__ __forceinline__ RowStatistics row_statistics(const AttentionBackwardArguments<T>& op,
                                                        const DeviceHead& head, u32 row) {
  const u32 start = head.start(op.starts, row);
  const KeyHole hole = head.hole(op.holes, row);
  if (row >= op.sizes.tokens) return {__uint_as_float(infinity_bits), 0.0f, start, hole};
  const float lse2 = op.lse[head.lse(row)] * log2_of_e;
  if (delta_has_room<T>(op.sizes)) return {lse2, get_delta(head.queries(op.dqkv, row).first), start, hole};
  return {lse2, widened(*head.out(op.dout, row).first) * widened(*head.out(op.out, row).first), start, hole};
}

}  // namespace tidepool::cuda
