// Launch shapes for the norm of a gradient: a block per granule, and in it a thread per lane of each cell, so
// that every sum has the order that gradient_granule.h defines.
#pragma once

#include "kernels/cuda/launch_shape.h"
#include "kernels/gradient/gradient.h"

namespace tidepool::cuda {

inline constexpr u32 norm_lanes = 16;
inline constexpr u32 norm_cells_per_granule = norm_granule_elements / norm_cell_elements;

constexpr LaunchShape norm_launch(u64 elements) {
  return {.grid = {static_cast<u32>(div_up(elements, norm_granule_elements))},
          .block = {norm_lanes * norm_cells_per_granule}};
}

}  // namespace tidepool::cuda
