// Totals of routers on the device, with the host's bits: one thread adds in the host's order what the others
// have multiplied. One small block per micro-batch.
#include "kernels/cuda/device.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/require.h"
#include "kernels/router/router_launch.h"

namespace tidepool {
namespace cuda {
namespace {

__global__ void __launch_bounds__(router_totals_threads) router_totals_kernel(RouterTotals op) {
  double* const products = dynamic_shared<double>();
  double choices = 0;  // exact
  for (u32 expert = threadIdx.x; expert < op.experts; expert += blockDim.x) {
    i64 count = 0;
    double probability = 0;
    for (u32 layer = 0; layer < op.layers; ++layer) {
      const u64 at = u64{layer} * op.experts + expert;
      count += op.sums.counts[at];
      probability += op.sums.probabilities[at];
      op.tokens[at] += op.sums.counts[at];
    }
    choices += static_cast<double>(count);
    products[expert] = static_cast<double>(count) * probability;
  }
  choices = block_sum(choices);  // products are written, too
  if (threadIdx.x > 0 || choices == 0) return;
  const double rows = choices / op.chosen;
  double balance = 0, z = 0, entropy = 0;
  for (u32 expert = 0; expert < op.experts; ++expert) balance += products[expert];
  for (u32 layer = 0; layer < op.layers; ++layer) {
    z += op.sums.z[layer];
    entropy += op.sums.entropy[layer];
  }
  op.losses->balance += op.experts * balance / (rows * rows);
  op.losses->z += z / rows;
  op.losses->entropy += entropy / rows;
}

}  // namespace
}  // namespace cuda

void router_totals_cuda(const RouterTotals& op, cudaStream_t stream) {
  using namespace cuda;
  require(op.experts <= router_experts_max, "router_totals: too many experts");
  launch<router_totals_kernel>(router_totals_launch(op.experts), stream, op);
}

}  // namespace tidepool
