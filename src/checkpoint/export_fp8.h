// Quantizes matrices to FP8 in blocks of 128 x 128, as transformers' finegrained FP8 stores them: codes in
// e4m3fn, and beside them fp32 scales, the largest magnitude of a block over 448.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "tidepool/model_config.h"

namespace tidepool {

inline constexpr u32 fp8_block_size = 128;

// RETURNS: the nearest e4m3fn, ties to even; beyond 448 the largest code.
u8 e4m3_from_float(float);

// True for a matrix of one of the model's layers, but for routers.
bool is_fp8_matrix(const ModelConfig&, std::string_view tensor, std::span<const u64> shape);

// Fp8Matrix quantizes one matrix, a band of rows at a time.
class Fp8Matrix {
 public:
  Fp8Matrix(u32 rows, u32 columns) : rows_(rows), columns_(columns) {}

  // Bands follow each other; all but the last have fp8_block_size rows.
  // RETURNS: codes, valid until the next call.
  std::span<const u8> put(std::span<const float> band);
  // RETURNS: [ceil(rows / 128), ceil(columns / 128)].
  std::span<const float> scales() const { return scales_; }
  std::vector<u64> scales_shape() const {
    return {div_up(rows_, fp8_block_size), div_up(columns_, fp8_block_size)};
  }

 private:
  const u32 rows_, columns_;
  std::vector<u8> codes_;
  std::vector<float> scales_;
};

}  // namespace tidepool
