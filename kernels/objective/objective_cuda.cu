// Losses of units on the device, in one block: a thread sums a sequence, row by row, and then makes the loss
// of a unit. Units' sums are added by one thread, in order.
#include "kernels/cuda/device.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/objective/unit_losses.h"

namespace tidepool {
namespace cuda {
namespace {

constexpr u32 unit_threads = 256;

__global__ void __launch_bounds__(unit_threads) unit_losses_kernel(UnitLosses u) {
  BLOCK_SHARED(UnitTotals, totals);
  double units = 0, first_targets = 0, mismatched = 0;
  for (u32 row = threadIdx.x; row < u.rows; row += unit_threads) {
    if (u.factors != nullptr) u.factors[row] = {};
    if (!begins_sequence(u, row)) continue;
    const SequenceSums sums = sums_of_sequence(u, row);
    u.of_sequences[row] = sums;
    if (!begins_unit(u, row)) {
      mismatched += sums.logps - sums.references;
      continue;
    }
    units += 1;
    first_targets += sums.targets + sums.prompt_targets;
  }
  units = block_sum(units);
  first_targets = block_sum(first_targets);
  mismatched = block_sum(mismatched);
  if (threadIdx.x == 0) totals = {static_cast<u32>(units), static_cast<u32>(first_targets), mismatched};
  __syncthreads();
  for (u32 row = threadIdx.x; row < u.rows; row += unit_threads)
    if (begins_unit(u, row)) u.of_units[row] = loss_of_unit(u, row, totals);
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (u32 row = 0; row < u.rows; ++row)
    if (begins_unit(u, row)) u.sums->add(u.of_units[row]);
}

}  // namespace
}  // namespace cuda

void unit_losses_cuda(const UnitLosses& u, cudaStream_t stream) {
  cuda::launch<cuda::unit_losses_kernel>({.block = {cuda::unit_threads}}, stream, u);
}

}  // namespace tidepool
