// The router's backward on the device: a warp per row, with the row's gradients in shared memory. Logits are
// read, and gradients written, once; that and the softmax limit it.
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/require.h"
#include "kernels/router/router_device.cuh"
#include "kernels/router/router_launch.h"

namespace tidepool {
namespace cuda {
namespace {

// Writes the gradient of every row's P. Called by the block. RETURNS: scales with the loss scale.
__device__ RouterLossScales balance_gradient(const RouterBackward& op, float* balance) {
  const u32 experts = op.rule.experts;
  double choices = 0;  // exact
  for (u32 expert = threadIdx.x; expert < experts; expert += blockDim.x) {
    i64 tokens = 0;
    for (u32 layer = 0; op.counts != nullptr && layer < op.layers; ++layer) {
      tokens += op.counts[u64{layer} * experts + expert];
    }
    balance[expert] = static_cast<float>(tokens);
    choices += static_cast<double>(tokens);
  }
  RouterLossScales scales = router_loss_scales(op.rule, op.losses, block_sum(choices));
  const float loss_scale = op.loss_scale != nullptr ? *op.loss_scale : 1.0f;
  scales.balance *= loss_scale, scales.z *= loss_scale;
  for (u32 expert = threadIdx.x; expert < experts; expert += blockDim.x)
    balance[expert] = scales.balance != 0 ? scales.balance * balance[expert] : 0.0f;
  __syncthreads();
  return scales;
}

// One row; `d` [E] in shared memory becomes its gradient.
struct BackwardRow {
  const float* logits;
  const i32* chosen;      // [k]
  const float* dweights;  // [k], or null
  const float* factors;   // [E], or null
  float* dfactors;        // [k], or null
  float* d;

  // RETURNS: the gradient of a weight before its factor.
  __device__ float dweight(u32 j) const {
    return factors != nullptr ? dweights[j] * factors[chosen[j]] : dweights[j];
  }
};

// d of everything that depends on the softmax over all E: P (dP - <dP, P>) + scales.z 2 logsumexp P.
__device__ void through_softmax(const RouterRule& rule, const RouterLossScales& scales, const float* balance,
                                const BackwardRow& r) {
  const bool weights = r.dweights != nullptr && rule.scores == RouterScores::softmax && !rule.normalise;
  for_experts_of_lane(rule.experts, [&](u32 expert) { r.d[expert] = balance[expert]; });
  __syncwarp();
  if (!weights && scales.balance == 0 && scales.z == 0) return;  // zeros
  if (weights) {
    for_experts_of_lane(rule.chosen, [&](u32 j) { r.d[r.chosen[j]] += rule.scale * r.dweight(j); });
    __syncwarp();
  }
  const RowSoftmax softmax = row_softmax(r.logits, rule.experts);
  double mean = 0;
  for_experts_of_lane(rule.experts,
                      [&](u32 expert) { mean += double{r.d[expert]} * double{softmax.p(r.logits[expert])}; });
  mean = warp_sum(mean);
  const float z = 2 * scales.z * softmax.lse;
  for_experts_of_lane(rule.experts, [&](u32 expert) {
    const float rise = static_cast<float>(double{r.d[expert]} - mean);
    r.d[expert] = softmax.p(r.logits[expert]) * (rise + z);
  });
  __syncwarp();
}

// Weights that are a softmax over the chosen logits: q (dw - <q, dw>).
__device__ void through_chosen_softmax(const RouterRule& rule, const BackwardRow& r) {
  float maximum = -INFINITY, sum = 0, mean = 0;
  for_experts_of_lane(rule.chosen, [&](u32 j) { maximum = fmaxf(maximum, r.logits[r.chosen[j]]); });
  maximum = warp_max(maximum);
  for_experts_of_lane(rule.chosen, [&](u32 j) { sum += expf(r.logits[r.chosen[j]] - maximum); });
  sum = warp_sum(sum);
  const auto q = [&](u32 j) { return expf(r.logits[r.chosen[j]] - maximum) / sum; };
  for_experts_of_lane(rule.chosen, [&](u32 j) { mean += q(j) * r.dweight(j); });
  mean = warp_sum(mean);
  for_experts_of_lane(rule.chosen,
                      [&](u32 j) { r.d[r.chosen[j]] += rule.scale * q(j) * (r.dweight(j) - mean); });
  if (r.dfactors == nullptr) return;
  for_experts_of_lane(rule.chosen, [&](u32 j) { r.dfactors[j] = rule.scale * q(j) * r.dweights[j]; });
}

__device__ void through_sigmoid(const RouterRule& rule, const BackwardRow& r) {
  float sum = 1, mean = 0;
  if (rule.normalise) {
    sum = 0;
    for_experts_of_lane(rule.chosen, [&](u32 j) { sum += router_logistic(r.logits[r.chosen[j]]).open; });
    sum = warp_sum(sum) + 1e-20f;
    for_experts_of_lane(rule.chosen, [&](u32 j) {
      mean += router_logistic(r.logits[r.chosen[j]]).open / sum * r.dweight(j);
    });
    mean = warp_sum(mean);
  }
  for_experts_of_lane(rule.chosen, [&](u32 j) {
    const RouterLogistic gate = router_logistic(r.logits[r.chosen[j]]);
    r.d[r.chosen[j]] += rule.scale / sum * (r.dweight(j) - mean) * gate.open * gate.closed;
  });
}

__device__ void backward_row(const RouterRule& rule, const RouterLossScales& scales, const float* balance,
                             const BackwardRow& r) {
  through_softmax(rule, scales, balance, r);
  if (r.dweights == nullptr) return;
  if (rule.scores == RouterScores::sigmoid) {
    through_sigmoid(rule, r);
  } else if (rule.scores == RouterScores::chosen_softmax || rule.normalise) {
    through_chosen_softmax(rule, r);
  }
  __syncwarp();
}

__global__ void __launch_bounds__(router_warps_max* warp_threads) router_backward_kernel(RouterBackward op) {
  const u32 experts = op.rule.experts, warps = blockDim.x / warp_threads;
  float* const balance = dynamic_shared<float>();
  float* const d = balance + (1 + warp_index()) * experts;
  const RouterLossScales scales = balance_gradient(op, balance);
  for (u64 row = u64{blockIdx.x} * warps + warp_index(); row < op.rows; row += u64{gridDim.x} * warps) {
    const u64 first = row * op.rule.chosen;
    float* const dfactors = op.dfactors != nullptr ? op.dfactors + first : nullptr;
    if (op.targets != nullptr && op.targets[row] == padding_target) {
      for_experts_of_lane(experts, [&](u32 expert) { d[expert] = 0; });
      for_experts_of_lane(dfactors != nullptr ? op.rule.chosen : 0, [&](u32 j) { dfactors[j] = 0; });
    } else {
      backward_row(op.rule, scales, balance,
                   {op.logits + row * experts, op.experts + first,
                    op.dweights != nullptr ? op.dweights + first : nullptr, op.factors, dfactors, d});
    }
    // All lanes have read the logits, which may be the same array.
    for_experts_of_lane(experts, [&](u32 expert) { op.dlogits[row * experts + expert] = d[expert]; });
  }
}

}  // namespace
}  // namespace cuda

void router_backward_cuda(const RouterBackward& op, cudaStream_t stream) {
  using namespace cuda;
  check_rule(op.rule);
  require(op.dfactors == nullptr || can_have_factors(op),
          "router_backward: factors need gradients of weights that are a softmax over the chosen");
  if (op.rows == 0) return;
  launch<router_backward_kernel>(router_backward_launch(op.rows, op.rule.experts), stream, op);
}

}  // namespace tidepool
