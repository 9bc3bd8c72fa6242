// Unpacks frozen matrices on the device, with the bits of the CPU. A thread takes groups of 8 neighbours,
// aligned in the flattened matrix, so their codes are one aligned word; what it reads past a part's end is
// the part's padding. Moves 2.5 to 3 bytes per value in bf16 and computes about 20 operations, so memory
// bounds it.
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/unpack/unpack_launch.h"

namespace tidepool {
namespace cuda {
namespace {

// Offsets are in bytes from a matrix's beginning.
struct UnpackArrays {
  const std::byte* packed;
  u64 scales, nested_scales, table;
  u64 begin, end;  // elements
  u64 packed_stride, out_stride;
  u32 count;
  bool transposed;
  u32 rows;
  u32 columns, block_rows, block_columns, scales_per_row;  // fp8_block
  u32 block_log2, nested_block_log2;                       // formats of 4 bits
};

struct CodeBook {
  float values[16];
};

// To nearest, ties to even; NaN is 0x7fc0. As a float whose lower half is 0, so that further conversions are
// exact.
__device__ __forceinline__ float nearest_bf16(float x) {
  const u32 bits = __float_as_uint(x);
  const u32 rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff'0000u;
  return __uint_as_float(x != x ? 0x7fc0'0000u : rounded);
}

template <class T>
__device__ __forceinline__ const T* part(const std::byte* packed, u64 offset) {
  return reinterpret_cast<const T*>(packed + offset);
}

// Writes the elements of group `at` that are in range.
template <bool whole, class T>
__device__ __forceinline__ void put_group(const UnpackArrays& a, u64 at, const float (&v)[8], T* out) {
  if constexpr (whole) {
    store8<true>(out, at - a.begin, a.end - a.begin, v);
  } else {
    for (u32 i = 0; i < 8; ++i) {
      if (at + i >= a.begin && at + i < a.end) out[at + i - a.begin] = narrowed<T>(v[i]);
    }
  }
}

// Calls fn(packed, out, at) for each group that this thread takes, of each matrix.
template <class T, class Fn>
__device__ __forceinline__ void for_groups(const UnpackArrays& a, T* out, Fn fn) {
  const u64 first = a.begin / 8, groups = (a.end + 7) / 8;
  for (u64 matrix = blockIdx.y; matrix < a.count; matrix += gridDim.y) {
    for (u64 g = first + grid_thread(); g < groups; g += grid_threads())
      fn(a.packed + matrix * a.packed_stride, out + matrix * a.out_stride, 8 * g);
  }
}

// The same for a whole matrix of which `out` gets the transpose. Neighbouring threads take neighbouring rows.
template <class T, class Fn>
__device__ __forceinline__ void for_groups_down(const UnpackArrays& a, T* out, Fn fn) {
  const u64 groups = a.end / 8;
  for (u64 matrix = blockIdx.y; matrix < a.count; matrix += gridDim.y) {
    for (u64 g = grid_thread(); g < groups; g += grid_threads()) {
      const u64 row = g % a.rows, column = g / a.rows * 8;
      fn(a.packed + matrix * a.packed_stride, out + matrix * a.out_stride + column * a.rows + row,
         row * a.columns + column);
    }
  }
}

template <Packing packing>
__device__ __forceinline__ float nibble_scale(const UnpackArrays& a, const std::byte* packed, u64 block) {
  if constexpr (packing == Packing::nf4) {
    return part<float>(packed, a.scales)[block];
  } else {
    const u32 code = part<u8>(packed, a.scales)[block];
    if constexpr (packing == Packing::mxfp4) {
      return __uint_as_float(code == 0 ? 0x0040'0000u : code << 23);  // 2^-127 is a denormal
    } else {
      const float* table = part<float>(packed, a.table);
      return table[code] * part<float>(packed, a.nested_scales)[block >> a.nested_block_log2] +
             table[nested_codes];
    }
  }
}

template <Packing packing, bool whole, class T>
__global__ void __launch_bounds__(256) unpack_nibbles_kernel(UnpackArrays a, CodeBook given, T* out) {
  BLOCK_SHARED(float[16], book);
  if (threadIdx.x < 16) book[threadIdx.x] = given.values[threadIdx.x];
  __syncthreads();
  const auto values = [&](const std::byte* packed, u64 at, float(&v)[8]) {
    const u32 codes = *part<u32>(packed, at / 2);
    const float scale = nibble_scale<packing>(a, packed, at >> a.block_log2);
    UNROLL for (u32 i = 0; i < 8; ++i) {
      const u32 place = packing == Packing::mxfp4 ? i : i ^ 1;  // nf4 has the high nibble first
      v[i] = nearest_bf16(book[codes >> 4 * place & 15] * scale);
    }
  };
  float v[8];
  if (packing == Packing::mxfp4 && a.transposed) {
    for_groups_down(a, out, [&](const std::byte* packed, T* to, u64 at) {
      values(packed, at, v);
      UNROLL for (u32 i = 0; i < 8; ++i) to[u64{i} * a.rows] = narrowed<T>(v[i]);
    });
    return;
  }
  for_groups(a, out, [&](const std::byte* packed, T* to, u64 at) {
    values(packed, at, v);
    put_group<whole>(a, at, v, to);
  });
}

// e4m3fn: as a half its bits make 2^-8 times the value, denormals included.
__device__ __forceinline__ float e4m3_float(u32 code) {
  const u32 magnitude = code & 0x7fu;
  const float x = widened(Fp16{static_cast<u16>((code & 0x80u) << 8 | magnitude << 7)}) * 256.0f;
  return magnitude == 0x7fu ? __uint_as_float(0x7fc0'0000u) : x;
}

// A division that is short below 2^32.
__device__ __forceinline__ u64 quotient(u64 a, u32 b) {
  return a >> 32 == 0 ? static_cast<u32>(a) / b : a / b;
}

template <Packing packing>
__device__ __forceinline__ float byte_scale(const UnpackArrays& a, const std::byte* packed, u64 at) {
  const u64 row = quotient(at, a.columns);
  const float* scales = part<float>(packed, a.scales);
  if constexpr (packing == Packing::int8_row) return scales[row];
  const u32 column = static_cast<u32>(at - row * a.columns);
  return scales[static_cast<u32>(row) / a.block_rows * u64{a.scales_per_row} + column / a.block_columns];
}

template <Packing packing>
__device__ __forceinline__ float byte_value(u32 code, float scale) {
  if constexpr (packing == Packing::fp8_block) return nearest_bf16(e4m3_float(code) * scale);
  const float q = static_cast<float>(static_cast<i32>(code << 24) >> 24);
  return nearest_bf16(q * scale * int8_factor);
}

// `whole`: also, the 8 elements of a group have one scale.
template <Packing packing, bool whole, class T>
__global__ void __launch_bounds__(256) unpack_bytes_kernel(UnpackArrays a, T* out) {
  for_groups(a, out, [&](const std::byte* packed, T* to, u64 at) {
    const uint2 words = *part<uint2>(packed, at);
    float scale = byte_scale<packing>(a, packed, whole || at >= a.begin ? at : a.begin);
    float v[8];
    UNROLL for (u32 i = 0; i < 8; ++i) {
      const u32 code = (i < 4 ? words.x : words.y) >> 8 * (i % 4) & 0xff;
      if constexpr (!whole) {
        if (at + i > a.begin && at + i < a.end) scale = byte_scale<packing>(a, packed, at + i);
      }
      v[i] = byte_value<packing>(code, scale);
    }
    put_group<whole>(a, at, v, to);
  });
}

u32 log2_of(u32 power) {
  u32 log2 = 0;
  while (power >> log2 > 1) ++log2;
  return log2;
}

bool has_log2(u32 size) { return (size & (size - 1)) == 0; }

UnpackArrays arrays_of(const Unpack& op) {
  const PackedMatrix& m = op.matrix;
  const bool fp8 = m.packing == Packing::fp8_block;
  return {.packed = op.packed,
          .scales = part_begin(m, PackedPart::scales),
          .nested_scales = part_begin(m, PackedPart::nested_scales),
          .table = part_begin(m, PackedPart::table),
          .begin = op.begin,
          .end = op.begin + op.elements,
          .packed_stride = op.packed_stride,
          .out_stride = op.out_stride,
          .count = op.count,
          .transposed = op.transposed,
          .rows = m.rows,
          .columns = m.columns,
          .block_rows = m.block_rows,
          .block_columns = m.block_columns,
          .scales_per_row = fp8 ? static_cast<u32>(div_up(m.columns, m.block_columns)) : 0,
          .block_log2 = log2_of(m.packing == Packing::mxfp4 ? mxfp4_block : m.block),
          .nested_block_log2 = log2_of(m.nested_block)};
}

CodeBook book_of(Packing packing) {
  CodeBook book;
  for (u32 i = 0; i < 16; ++i) book.values[i] = packing == Packing::mxfp4 ? mxfp4_values[i] : nf4_values[i];
  return book;
}

// Groups may be written as vectors, and have one scale.
bool groups_are_whole(const Unpack& op) {
  const PackedMatrix& m = op.matrix;
  const u64 sizes =
      op.begin | op.elements | op.out_stride | (is_nf4(m.packing) ? 0 : m.columns) | m.block_columns;
  return rows_of_vectors(sizes, op.out);
}

template <Packing packing, bool whole, class T>
void launch_unpack(const Unpack& op, cudaStream_t stream) {
  const LaunchShape shape = unpack_launch(op.begin, op.elements, op.count);
  const UnpackArrays arrays = arrays_of(op);
  if constexpr (packing == Packing::fp8_block || packing == Packing::int8_row) {
    launch<unpack_bytes_kernel<packing, whole, T>>(shape, stream, arrays, elements<T>(op.out));
  } else {
    launch<unpack_nibbles_kernel<packing, whole, T>>(shape, stream, arrays, book_of(packing),
                                                     elements<T>(op.out));
  }
}

template <Packing packing>
void launch_packing(const Unpack& op, cudaStream_t stream) {
  for_bool(groups_are_whole(op), [&](auto whole) {
    for_precision(op.out.precision,
                  [&](auto type) { launch_unpack<packing, whole.value, decltype(type)>(op, stream); });
  });
}

}  // namespace
}  // namespace cuda

void unpack_cuda(const Unpack& op, cudaStream_t stream) {
  using namespace cuda;
  require(op.begin + op.elements <= op.matrix.elements(), "a range lies within its matrix");
  require(has_log2(op.matrix.block) && has_log2(op.matrix.nested_block), "blocks of NF4 are powers of two");
  if (op.elements == 0 || op.count == 0) return;
  require(!op.transposed || (op.matrix.packing == Packing::mxfp4 && op.elements == op.matrix.elements()),
          "only whole matrices of MXFP4 are transposed");
  switch (op.matrix.packing) {
    case Packing::none:
      require(op.count == 1, "plain matrices are copied one by one");
      return dropout_cuda({}, ConstValues(op.packed, op.out.precision), op.out, op.elements, stream);
    case Packing::fp8_block:
      return launch_packing<Packing::fp8_block>(op, stream);
    case Packing::mxfp4:
      return launch_packing<Packing::mxfp4>(op, stream);
    case Packing::nf4:
      return launch_packing<Packing::nf4>(op, stream);
    case Packing::nf4_double:
      return launch_packing<Packing::nf4_double>(op, stream);
    case Packing::int8_row:
      return launch_packing<Packing::int8_row>(op, stream);
  }
}

}  // namespace tidepool
