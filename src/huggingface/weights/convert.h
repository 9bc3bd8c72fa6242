// Converts weights between F32, BF16, F16 and F64, on spans. Rounds to nearest, ties to even, as PyTorch's
// `to`.
#pragma once

#include <span>

#include "huggingface/weights/safetensors.h"

namespace tidepool {

// True for F32, BF16, F16 and F64.
bool is_float_weight(Dtype);
// `bytes`: as many elements of type `from` as `out` has.
// REQUIRES: is_float_weight; 4-byte aligned, F64 8-byte aligned. F64 beyond the range of F32 becomes
// infinite.
void to_floats(Dtype from, std::span<const std::byte> bytes, std::span<float> out);
void from_floats(std::span<const float> in, Dtype to, std::span<std::byte> bytes);
// True if a finite value would become infinite: from 65520 on.
bool overflows_fp16(std::span<const float> values);

}  // namespace tidepool
