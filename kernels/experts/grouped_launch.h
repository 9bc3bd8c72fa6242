// Chooses the device's kernels for grouped products, and their launch shapes. Needs no CUDA.
//
// Every kernel computes tiles of 128 x 128, with 256 threads. Each element is one sum in the order of the
// inner dimension, so neither the tile nor the grid changes bits.
//
// Limits: for each step of 32 inner elements, a tile of 16-bit elements loads 16 KiB, mostly from the L2
// cache, for 2^20 operations, or 64 operations per byte: 5.5 TB/s of an H100's cache feed 350 TFLOP/s.
// Weights are read from memory once for each 128 rows of an expert, so below about 300 rows per expert memory
// limits (3.35 TB/s, 2 bytes for 2 operations per row).
#pragma once

#include <algorithm>

#include "kernels/cuda/launch_shape.h"
#include "tidepool/chunk.h"

namespace tidepool::cuda {

// `tensor`: m16n8k16, bf16 from sm_80 on and fp16 from sm_75 on. `tensor_sm70`: m8n8k4, fp16 on sm_70. `fma`:
// fp32, and bf16 on older devices.
enum class GroupedUnits { fma, tensor, tensor_sm70 };
constexpr GroupedUnits grouped_units(Precision activations, int capability) {
  if (activations == Precision::fp32) return GroupedUnits::fma;
  if (capability >= 80) return GroupedUnits::tensor;
  if (activations == Precision::bf16) return GroupedUnits::fma;
  return capability >= 75 ? GroupedUnits::tensor : GroupedUnits::tensor_sm70;
}

inline constexpr u32 grouped_tile = 128, grouped_threads = 256;
inline constexpr u32 grouped_step = 32;      // inner elements in a stage, on tensor cores
inline constexpr u32 grouped_fma_step = 16;  // and with fused multiply-adds

// The two factors of a stage, in 16-bit elements of shared memory. A row of 32 has a spare chunk, so that
// rows lie in different banks; rows of 128 are swizzled.
inline constexpr u32 grouped_tall_elements = grouped_tile * 40;            // 128 rows of 32
inline constexpr u32 grouped_wide_elements = grouped_step * grouped_tile;  // 32 rows of 128
// sm_70 copies to shared memory without overlap, so a third stage would gain nothing.
constexpr u32 grouped_stages(GroupedUnits units) { return units == GroupedUnits::tensor ? 3 : 2; }
constexpr u32 grouped_shared_bytes(GroupedUnits units, bool left_is_tall, bool right_is_tall) {
  if (units == GroupedUnits::fma) return 0;
  const u32 left = left_is_tall ? grouped_tall_elements : grouped_wide_elements;
  const u32 right = right_is_tall ? grouped_tall_elements : grouped_wide_elements;
  return grouped_stages(units) * 2 * (left + right);
}

constexpr u32 grouped_tiles(u32 size) { return static_cast<u32>(div_up(size, grouped_tile)); }

// Blocks of x share rows, because a row of tiles reads the same activations. The grid has about twice the
// tiles that are expected; blocks loop over the rest, up to the upper bound.
struct GroupedRows {
  u32 rows_max = 0, expected_rows = 0, experts = 0;
};
constexpr LaunchShape grouped_matmul_launch(const GroupedRows& r, u32 n, GroupedUnits units,
                                            bool transposed) {
  const u64 most = u64{r.rows_max} / grouped_tile + std::min(r.experts, r.rows_max);
  const u64 wanted = r.expected_rows > 0 ? 2 * (u64{r.expected_rows} / grouped_tile + r.experts) : most;
  return {
      .grid = {grouped_tiles(n), static_cast<u32>(std::clamp<u64>(std::min(most, wanted), 1, grid_yz_max))},
      .block = {grouped_threads},
      .shared_bytes = grouped_shared_bytes(units, true, transposed)};
}

// A block per tile [rows, columns] of an expert's gradient, whatever the expert's rows.
constexpr LaunchShape grouped_gradient_launch(u32 rows, u32 columns, u32 experts, GroupedUnits units) {
  return {.grid = {grouped_tiles(columns), grouped_tiles(rows), experts},
          .block = {grouped_threads},
          .shared_bytes = grouped_shared_bytes(units, units == GroupedUnits::tensor_sm70, false)};
}

// Sums of dy: 32 neighbouring threads take 8 columns each, 8 threads share an expert's rows.
inline constexpr u32 grouped_bias_columns = 256, grouped_bias_threads_y = 8;
constexpr LaunchShape grouped_bias_gradient_launch(u32 columns, u32 experts) {
  return {.grid = {static_cast<u32>(div_up(columns, grouped_bias_columns)), experts},
          .block = {warp_threads, grouped_bias_threads_y}};
}

}  // namespace tidepool::cuda
