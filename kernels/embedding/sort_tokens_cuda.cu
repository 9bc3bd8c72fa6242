// Sorts in place with a bitonic sort (Batcher, "Sorting networks and their applications", 1968). The compared
// positions do not depend on the keys, nothing is allocated, and all keys differ, so the result is unique.
//
// Runs of `run` sorted keys are merged from two runs of half that length: first the lower half is compared
// with the reversed upper half, then neighbours at falling distances. All comparisons put the smaller key
// first, so keys past the end, which count as larger than all others, never move, and any number of keys
// works.
//
// 16 Ki keys take 10 launches, of which 4 work in shared memory: about 50 us. Rejected: counting the smaller
// keys for each key is one launch, but quadratic.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/embedding/embedding_launch.h"
#include "kernels/embedding/sort_tokens_cuda.h"

namespace tidepool::cuda {
namespace {

constexpr u64 largest = ~u64{0};

__device__ __forceinline__ void put_in_order(u64& a, u64& b) {
  const u64 x = a, y = b;
  if (x <= y) return;
  a = y;
  b = x;
}

// The two keys that thread `pair` of a step compares. Runs and distances are powers of two.
struct Pair {
  u64 first, second;
};
__device__ __forceinline__ Pair backwards_pair(u64 pair, u64 run) {
  const u64 offset = pair & (run / 2 - 1), begin = 2 * (pair - offset);
  return {begin + offset, begin + run - 1 - offset};
}
__device__ __forceinline__ Pair distant_pair(u64 pair, u64 distance) {
  const u64 first = 2 * pair - (pair & (distance - 1));
  return {first, first + distance};
}

// Runs the steps of falling distance within a tile in shared memory, two keys per thread.
__device__ __forceinline__ void merge_tile(u64* tile, u32 distance) {
  for (; distance > 0; distance /= 2) {
    __syncthreads();
    const Pair p = distant_pair(threadIdx.x, distance);
    put_in_order(tile[p.first], tile[p.second]);
  }
}

__global__ void __launch_bounds__(sort_tile_keys / 2)
    sort_tiles_kernel(const i32* tokens, u32 rows, u32 vocabulary, u64* order) {
  BLOCK_SHARED(u64[sort_tile_keys], tile);
  const u64 begin = u64{blockIdx.x} * sort_tile_keys;
  for (u32 i = threadIdx.x; i < sort_tile_keys; i += blockDim.x) {
    const u64 row = begin + i;
    tile[i] = largest;
    if (row >= rows) continue;
    const u32 token = static_cast<u32>(tokens[row]);
    if (token >= vocabulary) __trap();
    tile[i] = u64{token} << 32 | row;
  }
  for (u32 run = 2; run <= sort_tile_keys; run *= 2) {
    __syncthreads();
    const Pair p = backwards_pair(threadIdx.x, run);
    put_in_order(tile[p.first], tile[p.second]);
    merge_tile(tile, run / 4);
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < sort_tile_keys && begin + i < rows; i += blockDim.x)
    order[begin + i] = tile[i];
}

__global__ void __launch_bounds__(256) backwards_kernel(u64* order, u32 rows, u64 run) {
  const Pair p = backwards_pair(grid_thread(), run);
  if (p.second < rows) put_in_order(order[p.first], order[p.second]);
}

__global__ void __launch_bounds__(256) distant_kernel(u64* order, u32 rows, u64 distance) {
  const Pair p = distant_pair(grid_thread(), distance);
  if (p.second < rows) put_in_order(order[p.first], order[p.second]);
}

__global__ void __launch_bounds__(sort_tile_keys / 2) merge_tiles_kernel(u64* order, u32 rows) {
  BLOCK_SHARED(u64[sort_tile_keys], tile);
  const u64 begin = u64{blockIdx.x} * sort_tile_keys;
  for (u32 i = threadIdx.x; i < sort_tile_keys; i += blockDim.x) {
    tile[i] = begin + i < rows ? order[begin + i] : largest;
  }
  merge_tile(tile, sort_tile_keys / 2);
  __syncthreads();
  for (u32 i = threadIdx.x; i < sort_tile_keys && begin + i < rows; i += blockDim.x)
    order[begin + i] = tile[i];
}

}  // namespace

void sort_tokens(const i32* tokens, u32 rows, u32 vocabulary, u64* order, cudaStream_t stream) {
  launch<sort_tiles_kernel>(sort_tiles_launch(rows), stream, tokens, rows, vocabulary, order);
  for (u64 run = 2 * sort_tile_keys; run / 2 < rows; run *= 2) {
    launch<backwards_kernel>(sort_pairs_launch(rows, run), stream, order, rows, run);
    for (u64 distance = run / 4; distance >= sort_tile_keys; distance /= 2) {
      launch<distant_kernel>(sort_pairs_launch(rows, run), stream, order, rows, distance);
    }
    launch<merge_tiles_kernel>(sort_tiles_launch(rows), stream, order, rows);
  }
}

}  // namespace tidepool::cuda
