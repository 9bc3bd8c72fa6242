// Launch shapes of the device's paths to experts and back. The true number of rows is known on the device
// only: grids cover the upper bound, or loop, and blocks past the true count leave at once.
#pragma once

#include "kernels/cuda/launch_shape.h"
#include "kernels/experts/experts.h"

namespace tidepool::cuda {

// Sorting: one block per expert reads all choices twice, so it needs neither scratch nor a second launch.
// 256 Ki choices of 128 experts are 256 MiB of reads, nearly all from the L2 cache: 50 us at 5 TB/s.
inline constexpr u32 sort_choices_threads = 512, sort_choices_per_thread = 8;
inline constexpr u32 sort_choices_tile = sort_choices_threads * sort_choices_per_thread;
constexpr LaunchShape sort_by_expert_launch(u32 range_count) {
  return {.grid = {range_count > 0 ? range_count : 1}, .block = {sort_choices_threads}};
}

// Gathering: a thread copies 8 neighbours at a time.
constexpr LaunchShape gather_rows_launch(u32 rows_max, u32 columns) {
  return elementwise_launch(rows_max * div_up(u64{columns}, vector_elements), 1);
}

// Combining: one block per token sorts the token's choices; then a thread takes 8 columns at a time.
inline constexpr u32 combine_chosen_max = 4096;  // places and weights of a token's choices: 32 KiB
constexpr LaunchShape combine_experts_launch(u32 rows, u32 columns, u32 chosen) {
  const u64 threads = round_up(div_up(columns, 8), warp_threads);
  return {
      .grid = {rows}, .block = {static_cast<u32>(threads < 256 ? threads : 256)}, .shared_bytes = 8 * chosen};
}

// A warp per row.
inline constexpr u32 route_bias_threads = 256;
constexpr LaunchShape route_bias_gradient_launch(u32 rows_max) {
  return {.grid = elementwise_launch(rows_max, 1, route_bias_threads / warp_threads).grid,
          .block = {route_bias_threads}};
}

}  // namespace tidepool::cuda
