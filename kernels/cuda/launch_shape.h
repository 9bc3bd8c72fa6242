// LaunchShape is how a kernel is cut into blocks. Shapes come from small pure functions of an operation's
// sizes (kernels/*/*_launch.h), which need no CUDA and are tested at the extremes of those sizes.
#pragma once

#include "base/types.h"

namespace tidepool::cuda {

inline constexpr u32 warp_threads = 32;
inline constexpr u32 vector_elements = 8;  // elements per thread and access
// Limits of every GPU since sm_70. launch() requests shared memory above the default.
inline constexpr u32 block_threads_max = 1024;
inline constexpr u32 grid_x_max = 0x7fff'ffff, grid_yz_max = 65535;
inline constexpr u32 shared_bytes_default = 48 * 1024;
inline constexpr u32 shared_bytes_everywhere =
    64 * 1024;  // sm_75 has 64 KiB; sm_70 96, sm_80 163, sm_86 99, sm_90 227

struct Extent {
  u32 x = 1, y = 1, z = 1;
  bool operator==(const Extent&) const = default;
};

struct LaunchShape {
  Extent grid, block;
  u32 shared_bytes = 0;  // dynamic
  bool operator==(const LaunchShape&) const = default;
};

// RETURNS: true if every device accepts the shape, with dynamic shared memory up to shared_bytes_everywhere.
constexpr bool fits_every_device(const LaunchShape& s) {
  const auto within = [](u32 value, u32 most) { return value >= 1 && value <= most; };
  return within(s.grid.x, grid_x_max) && within(s.grid.y, grid_yz_max) && within(s.grid.z, grid_yz_max) &&
         within(s.block.x, block_threads_max) && within(s.block.y, block_threads_max) &&
         within(s.block.z, 64) && u64{s.block.x} * s.block.y * s.block.z <= block_threads_max &&
         s.shared_bytes <= shared_bytes_everywhere;
}

// A grid for `elements`, with `threads` per block that take `per_thread` elements at a time. The grid is
// bounded: kernels loop by grid_threads() until all elements are done, so any count works.
constexpr LaunchShape elementwise_launch(u64 elements, u32 per_thread, u32 threads = 256) {
  constexpr u64 blocks_max = 16 * 1024;  // 8 blocks for each of 2048 multiprocessors: more only cost time
  const u64 blocks = div_up(elements, u64{per_thread} * threads);
  return {.grid = {static_cast<u32>(blocks < 1            ? 1
                                    : blocks > blocks_max ? blocks_max
                                                          : blocks)},
          .block = {threads}};
}

}  // namespace tidepool::cuda
