// Stable counting sort of choices on the device, without scratch: block e counts the choices of its own
// expert and those of earlier experts, so it knows where its expert begins; then it places its choices in
// order of slots. No block waits for another.
#include "kernels/cuda/device.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/experts/experts_launch.h"

namespace tidepool {
namespace cuda {
namespace {

constexpr u32 sort_warps = sort_choices_threads / warp_threads;

// Index of a choice's expert in the range; at least range.count if the range does not have it.
__device__ __forceinline__ u32 index_in(const ExpertRange& range, i32 expert) {
  return static_cast<u32>(expert) - range.first;  // below `first` it wraps around
}

struct SortCounts {
  u32 before, own;  // choices of earlier experts of the range, and of this expert
};
__device__ SortCounts count_choices(const SortByExpert& op, u64 choices, u32 expert) {
  u32 before = 0, own = 0;
  for (u64 slot = threadIdx.x; slot < choices; slot += sort_choices_threads) {
    const u32 index = index_in(op.range, op.experts[slot]);
    before += index < expert ? 1 : 0;
    own += index == expert ? 1 : 0;
  }
  return {block_sum(before), block_sum(own)};
}

// Exclusive sum over the warps of a block. RETURNS: this warp's; `total` receives the sum of all.
__device__ __forceinline__ u32 warps_before(u32 of_warp, u32* counts, u32& total) {
  if (lane_index() == 0) counts[warp_index()] = of_warp;
  __syncthreads();
  u32 before = 0;
  total = 0;
  for (u32 warp = 0; warp < sort_warps; ++warp) {
    before += warp < warp_index() ? counts[warp] : 0;
    total += counts[warp];
  }
  __syncthreads();
  return before;
}

// A warp takes 8 runs of 32 neighbours of each tile. The choices of the expert are placed from `place` on.
// The block whose turn the tile is marks the choices that the range does not have.
__device__ void place_choices(const SortByExpert& op, u64 choices, u32 expert, u32 place) {
  BLOCK_SHARED(u32[sort_warps], counts);
  const u32 lanes_below = (u32{1} << lane_index()) - 1;
  u32 tile = 0;
  for (u64 begin = 0; begin < choices; begin += sort_choices_tile, ++tile) {
    const u64 first = begin + warp_index() * (sort_choices_tile / sort_warps) + lane_index();
    const bool marks = op.places != nullptr && tile % gridDim.x == expert;
    u32 mine[sort_choices_per_thread], of_warp = 0;
    UNROLL for (u32 i = 0; i < sort_choices_per_thread; ++i) {
      const u64 slot = first + i * warp_threads;
      const u32 index = slot < choices ? index_in(op.range, op.experts[slot]) : ~u32{0};
      if (marks && slot < choices && index >= op.range.count) op.places[slot] = -1;
      const bool own = index == expert && index < op.range.count;
      const u32 votes = __ballot_sync(all_lanes, own);
      mine[i] = own ? of_warp + static_cast<u32>(__popc(votes & lanes_below)) : ~u32{0};
      of_warp += static_cast<u32>(__popc(votes));
    }
    u32 total;
    const u32 at = place + warps_before(of_warp, counts, total);
    UNROLL for (u32 i = 0; i < sort_choices_per_thread; ++i) {
      if (mine[i] == ~u32{0}) continue;
      const u64 slot = first + i * warp_threads;
      op.slots[at + mine[i]] = static_cast<i32>(slot);
      if (op.places != nullptr) op.places[slot] = static_cast<i32>(at + mine[i]);
    }
    place += total;
  }
}

__global__ void __launch_bounds__(sort_choices_threads) sort_by_expert_kernel(SortByExpert op) {
  const u32 expert = blockIdx.x;
  const u64 choices = u64{op.rows} * op.chosen;
  const SortCounts counts = count_choices(op, choices, expert);
  if (threadIdx.x == 0) {
    if (expert == 0) op.offsets[0] = 0;
    if (expert < op.range.count) op.offsets[expert + 1] = static_cast<i32>(counts.before + counts.own);
  }
  place_choices(op, choices, expert, counts.before);
}

}  // namespace
}  // namespace cuda

void sort_by_expert_cuda(const SortByExpert& op, cudaStream_t stream) {
  using namespace cuda;
  launch<sort_by_expert_kernel>(sort_by_expert_launch(op.range.count), stream, op);
}

}  // namespace tidepool
