// Unpacks frozen matrices that keep the bytes they were published in (tidepool/packing.h): values in bf16, or
// those values widened to fp32 or converted to fp16. A product computes with them as with any other weights,
// so its bits are those of a base that was unpacked to bf16 beforehand.
#pragma once

#include "kernels/values.h"
#include "tidepool/core_pool.h"
#include "tidepool/packing.h"

namespace tidepool {

// A range of one packed matrix, or the same range of several equal ones, such as experts.
// A NaN, of a code or a scale, is 0x7fc0.
// REQUIRES: begin + elements <= matrix.elements().
struct Unpack {
  PackedMatrix matrix;                // Packing::none: `packed` has out's precision, and is copied
  const std::byte* packed = nullptr;  // [count][packed_bytes(matrix)], packed_stride apart
  u64 begin = 0, elements = 0;        // range of the matrix, flattened in rows
  u32 count = 1;                      // matrices
  u64 packed_stride = 0;              // bytes, a multiple of packed_alignment
  u64 out_stride = 0;                 // elements
  bool transposed = false;            // `out` is [count][columns, rows]. Only whole matrices of mxfp4
  Values out;                         // [count][elements], out_stride apart
};

// RETURNS: the operation on all of one matrix.
constexpr Unpack unpack_whole(const PackedMatrix& matrix, const std::byte* packed, Values out) {
  return {.matrix = matrix, .packed = packed, .elements = matrix.elements(), .out = out};
}
// RETURNS: the operation on rows [first, first + rows), written to the beginning of `out`.
constexpr Unpack unpack_rows(const PackedMatrix& matrix, const std::byte* packed, u32 first, u32 rows,
                             Values out) {
  return {.matrix = matrix,
          .packed = packed,
          .begin = u64{first} * matrix.columns,
          .elements = u64{rows} * matrix.columns,
          .out = out};
}

inline constexpr float int8_factor = 7.874015718698502e-3f;  // 1/127

void unpack_cpu(const Unpack&, CorePool&);

}  // namespace tidepool
