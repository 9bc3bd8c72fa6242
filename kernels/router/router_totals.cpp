#include "kernels/router/router_totals.h"

namespace tidepool {

void router_totals_cpu(const RouterTotals& op) {
  i64 choices = 0;
  double balance = 0, z = 0, entropy = 0;
  for (u32 expert = 0; expert < op.experts; ++expert) {
    i64 count = 0;
    double probability = 0;
    for (u32 layer = 0; layer < op.layers; ++layer) {
      const u64 at = u64{layer} * op.experts + expert;
      count += op.sums.counts[at];
      probability += op.sums.probabilities[at];
      op.tokens[at] += op.sums.counts[at];
    }
    choices += count;
    balance += static_cast<double>(count) * probability;
  }
  for (u32 layer = 0; layer < op.layers; ++layer) {
    z += op.sums.z[layer];
    entropy += op.sums.entropy[layer];
  }
  if (choices == 0) return;
  const double rows = static_cast<double>(choices) / op.chosen;
  op.losses->balance += op.experts * balance / (rows * rows);
  op.losses->z += z / rows;
  op.losses->entropy += entropy / rows;
}

}  // namespace tidepool
