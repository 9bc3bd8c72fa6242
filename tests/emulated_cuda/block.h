// Services that device code asks of its block. Each thread of a block is a fiber; all fibers of a block are
// on one thread of the host, and exactly one of them runs at a time, from one wait to the next. Between waits
// the order of threads is shuffled, so a kernel that lacks a barrier computes wrong results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>

#include "vector_types.h"

namespace emulated_cuda {

inline constexpr unsigned warp_lanes = 32;
inline constexpr unsigned block_threads_max = 1024;
inline constexpr std::size_t static_shared_bytes_max = 48 * 1024;

struct ThreadIndices {
  uint3 thread, block;
  dim3 block_size, grid_size;
};
// Indices of the device thread that runs on this host thread; null outside kernels.
extern thread_local constinit const ThreadIndices* thread_indices;

unsigned lane_of_thread();

// __syncthreads(). Stops the process if threads wait at different barriers, or if one has left.
void block_barrier(std::source_location);

// Inputs of the lanes of a collective, and addresses for their results; null for lanes outside `mask`.
struct WarpView {
  unsigned mask;
  const void* in[warp_lanes];
  void* out[warp_lanes];
};
using WarpFunction = void (*)(const WarpView&);

// Waits until every lane of `mask` has arrived with the same mask and function; the last arriving lane calls
// the function once, for all. Stops the process if the caller is not in `mask`.
void warp_collective(unsigned mask, const void* in, void* out, WarpFunction, const char* name,
                     std::source_location);

// The block's memory, poisoned when the block starts. `key` names a variable.
std::byte* dynamic_shared_memory();
std::byte* static_shared_memory(const void* key, std::size_t bytes, std::size_t alignment);

// Copies that run beside the thread: complete, and visible to all, when the thread has waited for their
// group.
void async_copy(void* to, const void* from, std::size_t bytes, std::size_t zeros);  // zeros: after the bytes
void async_copy_commit();
void async_copy_wait(std::size_t groups_left);

// Warp-wide matrix instructions, with the fragments that kernels/cuda/tensor_core.h describes.
void mma_16x8x16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], bool fp16,
                 std::source_location = std::source_location::current());
// The instruction of kernels/cuda/quad_pairs.h, fp16.
void mma_8x8x4(float (&d0)[4], float (&d1)[4], const std::uint32_t (&a)[2], const std::uint32_t (&b)[2],
               bool b_by_rows, std::source_location = std::source_location::current());
// Called by a whole warp before each lane reads `bytes` (8 or 16).
void count_shared_read(const void* p, unsigned bytes, std::source_location = std::source_location::current());
void load_matrices(std::uint32_t (&r)[4], const void* row, bool transposed,
                   std::source_location = std::source_location::current());

}  // namespace emulated_cuda
