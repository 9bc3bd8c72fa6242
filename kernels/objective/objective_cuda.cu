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
  if (threadIdx.x == 0) totals = {};
  __syncthreads();
  for (u32 row = threadIdx.x; row < u.rows; row += unit_threads) {
    if (u.factors != nullptr) u.factors[row] = {};
    if (!begins_sequence(u, row)) continue;
    u.of_sequences[row] = sums_of_sequence(u, row);
    if (!begins_unit(u, row)) continue;
    atomicAdd(&totals.units, 1u);  // integers: the order does not matter
    atomicAdd(&totals.chosen_targets, u.of_sequences[row].targets + u.of_sequences[row].prompt_targets);
  }
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
