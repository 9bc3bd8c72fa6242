#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/delta_rule/delta_rule_launch.h"
#include "kernels/delta_rule/delta_sums_cuda.h"

namespace tidepool::cuda {
namespace {

// Each of the threads of a column adds every eighth group, and one adds their sums; then the output once.
__global__ void delta_sums_kernel(DeltaSums op) {
  BLOCK_SHARED(float[delta_sums_threads_y][delta_sums_columns], sums);
  const u32 column = blockIdx.x * delta_sums_columns + threadIdx.x, kind = blockIdx.y;
  float sum = 0;
  if (column < op.columns)
    for (u32 group = threadIdx.y; group < op.groups; group += delta_sums_threads_y)
      sum += op.partials[(u64{group} * op.kinds + kind) * op.columns + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= op.columns) return;
  float total = 0;
  for (u32 y = 0; y < delta_sums_threads_y; ++y) total += sums[y][threadIdx.x];
  float* out = op.out[0];  // chosen by constants: a variable index would copy the arguments to memory
  UNROLL for (u32 i = 1; i < delta_taps_max; ++i) out = kind == i ? op.out[i] : out;
  out += u64{column} * op.stride;
  *out = op.accumulate ? *out + total : total;
}

}  // namespace

void sum_delta_groups(const DeltaSums& op, cudaStream_t stream) {
  launch<delta_sums_kernel>(delta_sums_launch(op.kinds, op.columns), stream, op);
}

}  // namespace tidepool::cuda
