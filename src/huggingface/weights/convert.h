// Weights from one type of file to another, on spans: to nearest, ties to even, as PyTorch's `to` rounds.
#pragma once

#include <span>

#include "huggingface/weights/safetensors.h"

namespace tidepool {

// F32, BF16 and F16 are.
bool is_float_weight(Dtype);
// `bytes`: as many elements of `from` as `out` has. REQUIRES: is_float_weight; 4-byte aligned.
void to_floats(Dtype from, std::span<const std::byte> bytes, std::span<float> out);
void from_floats(std::span<const float> in, Dtype to, std::span<std::byte> bytes);
// Whether a finite value would become infinite: 65520 and beyond.
bool overflows_fp16(std::span<const float> values);

}  // namespace tidepool
