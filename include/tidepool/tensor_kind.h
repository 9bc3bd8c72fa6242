// TensorKind says what a tensor is to an optimizer.
#pragma once

#include <array>
#include <string_view>

#include "base/types.h"

namespace tidepool {

enum class TensorKind : u8 { embedding, head, matrix, router, expert, norm, bias, adapter };
inline constexpr u32 tensor_kind_count = 8;

// As in config files.
inline constexpr std::array<std::string_view, tensor_kind_count> tensor_kind_names = {
    "embedding", "head", "matrix", "router", "expert", "norm", "bias", "adapter"};
constexpr std::string_view name(TensorKind kind) { return tensor_kind_names[static_cast<u32>(kind)]; }

}  // namespace tidepool
