// Operations of a warp on one token's logits, which the router's forward and backward share.
#pragma once

#include <cmath>

#include "kernels/cuda/device.h"
#include "kernels/router/router.h"

namespace tidepool::cuda {

// Calls fn(expert) for this lane's experts.
template <class Fn>
__device__ __forceinline__ void for_experts_of_lane(u32 experts, Fn fn) {
  for (u32 expert = lane_index(); expert < experts; expert += warp_threads) fn(expert);
}

// p = exp(logit - maximum) / sum of a softmax over all E.
struct RowSoftmax {
  float maximum, factor;  // factor = 1 / sum
  float lse;

  __device__ __forceinline__ float p(float logit) const { return expf(logit - maximum) * factor; }
};
__device__ __forceinline__ RowSoftmax row_softmax(const float* logits, u32 experts) {
  float maximum = -INFINITY, sum = 0;
  for_experts_of_lane(experts, [&](u32 expert) { maximum = fmaxf(maximum, logits[expert]); });
  maximum = warp_max(maximum);
  for_experts_of_lane(experts, [&](u32 expert) { sum += expf(logits[expert] - maximum); });
  sum = warp_sum(sum);
  return {maximum, 1.0f / sum, maximum + logf(sum)};
}

// s = 1 / (1 + e^-x), and 1 - s without cancellation. The exponential is computed in double and rounded once,
// as a good library does on the host, so that choices that depend on s are the host's.
struct RouterLogistic {
  float open, closed;
};
__device__ __forceinline__ RouterLogistic router_logistic(float x) {
  const float e = static_cast<float>(exp(-fabs(double{x})));
  const float high = 1.0f / (1.0f + e), low = e * high;
  return x < 0 ? RouterLogistic{low, high} : RouterLogistic{high, low};
}

}  // namespace tidepool::cuda
