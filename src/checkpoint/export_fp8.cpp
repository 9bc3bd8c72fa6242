#include "checkpoint/export_fp8.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/text/cut_text.h"
#include "tidepool/router_tensor.h"

namespace tidepool {
namespace {

constexpr float e4m3_max = 448;

// True for a tensor of a layer that the model has: files may have more, such as extra prediction modules.
bool in_layer(const ModelConfig& c, std::string_view tensor) {
  if (!take_prefix(tensor, style(c.family).tensors_path) || !take_prefix(tensor, ".")) return false;
  const std::optional<u32> layer = take_number(tensor);
  return layer && *layer < c.layers;
}

}  // namespace

u8 e4m3_from_float(float x) {
  const u8 sign = std::signbit(x) ? 0x80 : 0;
  const float magnitude = std::min(std::fabs(x), e4m3_max);
  // Below 2^-6, codes are multiples of 2^-9.
  if (magnitude < 0x1p-6f) return sign | static_cast<u8>(std::nearbyint(magnitude * 0x1p9f));
  const u32 bits = std::bit_cast<u32>(magnitude);
  const u32 rounded = bits + 0x7'ffff + (bits >> 20 & 1);  // to 3 bits behind the point, ties to even
  return sign | static_cast<u8>((rounded >> 20) - (120 << 3));
}

bool is_fp8_matrix(const ModelConfig& c, std::string_view tensor, std::span<const u64> shape) {
  return shape.size() == 2 && in_layer(c, tensor) && tensor.ends_with(".weight") &&
         !is_router(c.family, tensor) && !is_gate_matrix(c.family, tensor);
}

std::span<const u8> Fp8Matrix::put(std::span<const float> band) {
  const u64 rows = band.size() / columns_;
  CHECK(rows > 0 && rows <= fp8_block_size && rows * columns_ == band.size(), rows, columns_, band.size());
  codes_.resize(band.size());
  for (u32 first = 0; first < columns_; first += fp8_block_size) {
    const u32 last = std::min(first + fp8_block_size, columns_);
    float largest = 0;
    for (u64 r = 0; r < rows; ++r)
      for (u64 c = first; c < last; ++c) largest = std::max(largest, std::fabs(band[r * columns_ + c]));
    const float scale = largest > 0 ? largest / e4m3_max : 1;
    for (u64 r = 0; r < rows; ++r)
      for (u64 c = first; c < last; ++c)
        codes_[r * columns_ + c] = e4m3_from_float(band[r * columns_ + c] / scale);
    scales_.push_back(scale);
  }
  return codes_;
}

}  // namespace tidepool
