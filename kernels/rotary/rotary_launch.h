// Launch shapes of the device's rotation.
#pragma once

#include "kernels/cuda/launch_shape.h"
#include "kernels/rotary/rotary.h"

namespace tidepool::cuda {

inline constexpr u32 rotary_threads = 128;

// A group of this many lanes of a warp takes a head, eight pairs per lane. The last pair of an odd head has
// one element.
constexpr u32 rotary_lanes(u32 head_size) {
  u32 lanes = 1;
  while (vector_elements * lanes < div_up(head_size, 2)) lanes *= 2;
  return lanes;
}
static_assert(rotary_lanes(2 * rotary_pairs_max) <= warp_threads);

// One block per row: its angles are computed once for all its heads.
constexpr LaunchShape rotary_launch(u32 rows) { return {.grid = {rows}, .block = {rotary_threads}}; }

// Backward with norms: one block per group of rows, which sums the group's share of dq_norm and dk_norm.
constexpr LaunchShape rotary_norms_launch(u32 rows) {
  return {.grid = {static_cast<u32>(div_up(rows, rotary_group_rows))}, .block = {rotary_threads}};
}

// Sums over groups: one thread per element of dq_norm and dk_norm.
constexpr LaunchShape rotary_sum_launch(u32 head_size) {
  return {.grid = {static_cast<u32>(div_up(2 * head_size, 64))}, .block = {64}};
}

}  // namespace tidepool::cuda
