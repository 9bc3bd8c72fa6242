// Launch shapes of the device's unpacking.
#pragma once

#include "kernels/cuda/launch_shape.h"
#include "kernels/unpack/unpack.h"

namespace tidepool::cuda {

// Groups of 8 elements, counted from the matrix's beginning, that a range touches.
constexpr u64 unpack_groups(u64 begin, u64 elements) {
  return div_up(begin + elements, u64{vector_elements}) - begin / vector_elements;
}
// x: groups. y: matrices.
constexpr LaunchShape unpack_launch(u64 begin, u64 elements, u32 count) {
  LaunchShape shape = elementwise_launch(unpack_groups(begin, elements), 1);
  shape.grid.y = count < 1 ? 1 : count < grid_yz_max ? count : grid_yz_max;
  return shape;
}

}  // namespace tidepool::cuda
