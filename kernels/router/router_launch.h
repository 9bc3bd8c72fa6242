// Launch shapes of the device's router: a warp per row, whose numbers by expert lie in shared memory.
#pragma once

#include <algorithm>

#include "kernels/cuda/launch_shape.h"
#include "kernels/router/router.h"

namespace tidepool::cuda {

// A warp's row takes 4 bytes of shared memory per expert: 16 warps up to 512 experts, 2 for 4096.
inline constexpr u32 router_warps_max = 16;
inline constexpr u32 router_rows_bytes = 32 * 1024;
constexpr u32 router_warps(u32 experts) {
  return std::clamp<u32>(router_rows_bytes / (4 * std::max(experts, u32{1})), 1, router_warps_max);
}

// Rows of a part, each part summed in order by one block, and the number of parts: of the shape only.
struct RouterParts {
  u32 rows, count;
};
constexpr RouterParts router_parts(u32 rows) {
  const u32 each = std::max(router_warps_max, static_cast<u32>(div_up(rows, router_parts_max)));
  return {each, static_cast<u32>(div_up(rows, each))};
}

// Rows of a block: those of a part, or without sums one per warp, as long as the grid's limit allows.
constexpr u32 router_block_rows(u32 rows, u32 experts, bool sums) {
  if (sums) return router_parts(rows).rows;
  const u32 warps = router_warps(experts);
  return warps * static_cast<u32>(std::max<u64>(div_up(rows, u64{warps} * grid_x_max), 1));
}
constexpr LaunchShape router_launch(u32 rows, u32 experts, bool sums) {
  const u32 warps = router_warps(experts);
  return {.grid = {static_cast<u32>(div_up(rows, router_block_rows(rows, experts, sums)))},
          .block = {warps * warp_threads},
          .shared_bytes = warps * 4 * experts};
}
// Adds parts: a thread per expert, one for the entropy and one for z.
constexpr LaunchShape router_sums_launch(u32 experts) {
  return {.grid = {static_cast<u32>(div_up(experts + 2, 128))}, .block = {128}};
}

// Every block sums the counts of all layers once, so blocks loop over rows. In shared memory: a row per warp,
// and the balance term [E]; 32 KiB for 4096 experts, with one warp. Two warps would take all 48 KiB that a
// block has without asking, and the sum over the block has 256 bytes of its own.
inline constexpr u32 router_backward_blocks_max = 1024;
inline constexpr u32 router_backward_bytes = 47 * 1024;
constexpr u32 router_backward_warps(u32 experts) {
  return std::min(router_warps(experts), router_backward_bytes / (4 * std::max(experts, u32{1})) - 1);
}
static_assert(router_backward_warps(router_experts_max) == 1);
constexpr LaunchShape router_backward_launch(u32 rows, u32 experts) {
  const u32 warps = router_backward_warps(experts);
  return {.grid = {std::min(static_cast<u32>(div_up(rows, warps)), router_backward_blocks_max)},
          .block = {warps * warp_threads},
          .shared_bytes = (warps + 1) * 4 * experts};
}

// One block; a product per expert in shared memory.
inline constexpr u32 router_totals_threads = 256;
constexpr LaunchShape router_totals_launch(u32 experts) {
  return {.block = {router_totals_threads}, .shared_bytes = 8 * experts};
}

}  // namespace tidepool::cuda
