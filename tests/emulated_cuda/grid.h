// Grid is a kernel launch, run block after block on the calling thread of the host.
#pragma once

#include <cstdint>
#include <functional>

#include "vector_types.h"

namespace emulated_cuda {

struct Grid {
  dim3 grid, block;
  std::size_t dynamic_shared_bytes = 0;
  std::size_t shared_bytes_max = 0;  // per block, static and dynamic together
  std::uint64_t seed = 0;            // for the order of blocks, and of threads between waits
};

// Runs every block once, in shuffled order: a kernel that needs ordered or concurrent blocks fails. Calls the
// kernel once per thread.
// REQUIRES: the grid is within the limits that cudaLaunchKernel checks.
void run_grid(const Grid&, const std::function<void()>& kernel);

}  // namespace emulated_cuda
