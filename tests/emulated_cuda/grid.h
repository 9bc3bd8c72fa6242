// A kernel's launch, run block after block on the calling thread of the host.
#pragma once

#include <cstdint>
#include <functional>

#include "vector_types.h"

namespace emulated_cuda {

struct Grid {
  dim3 grid, block;
  std::size_t dynamic_shared_bytes = 0;
  std::size_t shared_bytes_max = 0;  // of a block, static and dynamic together
  std::uint64_t seed = 0;            // of the order of blocks, and of threads between waits
};

// Every block once, in shuffled order: a kernel that needs blocks in order, or at once, fails.
// REQUIRES: within the limits that cudaLaunchKernel checks. The kernel is called once per thread.
void run_grid(const Grid&, const std::function<void()>& kernel);

}  // namespace emulated_cuda
