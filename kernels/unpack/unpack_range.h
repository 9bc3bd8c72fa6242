// Unpacks a range of one packed matrix, on the calling thread.
#pragma once

#include "kernels/unpack/unpack.h"

namespace tidepool {

// The parts of a packed matrix.
struct PackedParts {
  const u8* codes = nullptr;
  const std::byte* scales = nullptr;     // fp32 or u8, as PackedPart says
  const float* nested_scales = nullptr;  // nf4_double
  const float* table = nullptr;          // nf4_double
};

inline PackedParts parts_of(const PackedMatrix& m, const std::byte* packed) {
  const auto floats = [&](PackedPart part) {
    return reinterpret_cast<const float*>(packed + part_begin(m, part));
  };
  return {.codes = reinterpret_cast<const u8*>(packed),
          .scales = packed + part_begin(m, PackedPart::scales),
          .nested_scales = floats(PackedPart::nested_scales),
          .table = floats(PackedPart::table)};
}

// out[i] = element begin + i, i < elements.
void unpack_range(const PackedMatrix&, const std::byte* packed, u64 begin, u64 elements, Values out);

}  // namespace tidepool
