// The router's forward on the device: a warp per row. Logits are read once from memory, then from the cache:
// 32 Ki rows of 128 experts are 16 MiB, and 8 rounds of choosing are about as long as the softmax.
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/require.h"
#include "kernels/router/choose_experts.cuh"
#include "kernels/router/router_launch.h"

namespace tidepool {
namespace cuda {
namespace {

// One row's state; each lane has the same.
struct RoutedRow {
  const float* logits;
  u32* keys;  // [E] in shared memory
  RowSoftmax softmax;
  Candidate last;  // the worst chosen expert
};

// Writes keys of the scores for the choice. RETURNS: false if a score is NaN.
__device__ bool write_keys(const Router& op, const float* logits, u32* keys) {
  bool numbers = true;
  for_experts_of_lane(op.rule.experts, [&](u32 expert) {
    float score = logits[expert];
    if (op.rule.scores == RouterScores::sigmoid) {
      score = router_logistic(score).open;
      if (op.correction != nullptr) score += op.correction[expert];
    }
    keys[expert] = key_of(score);
    numbers = numbers && score == score;
  });
  __syncwarp();
  return __all_sync(all_lanes, numbers) != 0;
}

// Chooses experts, and writes them with their weights before normalising. RETURNS: the sum of the weights, in
// order.
__device__ float choose(const Router& op, u64 row, RoutedRow& r) {
  const RouterRule& rule = op.rule;
  if (rule.scores == RouterScores::sigmoid && rule.chosen_groups < rule.groups)
    keep_best_groups(rule, r.keys);
  r.last = above_all;
  float sum = 0, best = 0;
  for (u32 j = 0; j < rule.chosen; ++j) {
    r.last = next_best(rule.experts, r.last, [&](u32 i) { return candidate_of(r.keys[i], i); });
    const u32 expert = index_of(r.last);
    const float logit = r.logits[expert];
    if (j == 0) best = logit;
    const float weight = rule.scores == RouterScores::sigmoid   ? router_logistic(logit).open
                         : rule.scores == RouterScores::softmax ? r.softmax.p(logit)
                                                                : expf(logit - best);
    sum += weight;
    if (lane_index() != j % warp_threads) continue;
    op.experts[row * rule.chosen + j] = static_cast<i32>(expert);
    op.weights[row * rule.chosen + j] = weight;
  }
  return sum;
}

// Each lane finishes the weights that it wrote.
__device__ void finish_weights(const Router& op, u64 row, float sum, bool numbers) {
  const RouterRule& rule = op.rule;
  if (rule.scores == RouterScores::sigmoid) sum += 1e-20f;
  const bool divides = rule.normalise || rule.scores == RouterScores::chosen_softmax;
  for_experts_of_lane(rule.chosen, [&](u32 j) {
    float& weight = op.weights[row * rule.chosen + j];
    const float share = divides ? weight / sum : weight;
    const float factor = op.factors != nullptr ? op.factors[op.experts[row * rule.chosen + j]] : 1.0f;
    weight = numbers ? share * rule.scale * factor : __uint_as_float(0x7fc0'0000u);
  });
}

// Replaces keys by probabilities. A probability has no sign, so its sign bit marks a chosen expert.
// RETURNS: the row's entropy.
__device__ double mark_probabilities(const Router& op, const RoutedRow& r) {
  double entropy = 0;
  for_experts_of_lane(op.rule.experts, [&](u32 expert) {
    const float logit = r.logits[expert], p = r.softmax.p(logit);
    if (p != 0) entropy += double{p} * (double{r.softmax.lse} - double{logit});  // 0 log 0 = 0; NaN is not 0
    const u32 chosen = candidate_of(r.keys[expert], expert) >= r.last ? 1 : 0;
    r.keys[expert] = (__float_as_uint(p) & 0x7fff'ffffu) | chosen << 31;
  });
  return warp_sum(entropy);
}

// Makes a row of padding add zeros to all sums. RETURNS: its entropy.
__device__ double mark_nothing(u32 experts, const RoutedRow& r) {
  for_experts_of_lane(experts, [&](u32 expert) { r.keys[expert] = 0; });
  return 0;
}

// Adds the block's rows to the sums of its part, in order of rows. A thread owns its experts' sums.
struct PartSums {
  double* probabilities;  // [E], then counts [E], entropy, z
  u32 experts;

  __device__ void clear() const {
    for (u32 i = threadIdx.x; i < 2 * experts + 2; i += blockDim.x) probabilities[i] = 0;
    __syncthreads();
  }
  __device__ void add(const u32* marked, u32 rows, const double (*of_rows)[2]) const {
    for (u32 expert = threadIdx.x; expert < experts; expert += blockDim.x) {
      double sum = probabilities[expert];
      u32 count = 0;
      for (u32 row = 0; row < rows; ++row) {
        const u32 word = marked[u64{row} * experts + expert];
        sum += double{__uint_as_float(word & 0x7fff'ffffu)};
        count += word >> 31;
      }
      probabilities[expert] = sum;
      probabilities[experts + expert] += count;
    }
    if (threadIdx.x < 2) {
      for (u32 row = 0; row < rows; ++row)
        probabilities[2 * experts + threadIdx.x] += of_rows[row][threadIdx.x];
    }
  }
};

template <bool sums>
__global__ void __launch_bounds__(router_warps_max* warp_threads) router_kernel(Router op, u32 block_rows) {
  BLOCK_SHARED(double[router_warps_max][2], of_rows);  // entropy and z
  const u32 experts = op.rule.experts, warps = blockDim.x / warp_threads;
  u32* const marked = dynamic_shared<u32>();
  const PartSums part = {sums ? op.partials + u64{blockIdx.x} * (2 * experts + 2) : nullptr, experts};
  if constexpr (sums) part.clear();
  const u64 begin = u64{blockIdx.x} * block_rows;
  const u64 end = op.rows < begin + block_rows ? op.rows : begin + block_rows;
  for (u64 first = begin; first < end; first += warps) {
    const u64 row = first + warp_index();
    if (row < end) {
      RoutedRow r = {op.logits + row * experts, marked + warp_index() * experts, {}, 0};
      if (sums || op.rule.scores == RouterScores::softmax) r.softmax = row_softmax(r.logits, experts);
      const bool numbers = write_keys(op, r.logits, r.keys);
      const float sum = choose(op, row, r);
      finish_weights(op, row, sum, numbers);
      if constexpr (sums) {
        const bool padding = op.targets != nullptr && op.targets[row] == padding_target;
        const double entropy = padding ? mark_nothing(experts, r) : mark_probabilities(op, r);
        if (lane_index() == 0) {
          of_rows[warp_index()][0] = entropy;
          of_rows[warp_index()][1] = padding ? 0 : double{r.softmax.lse} * double{r.softmax.lse};
        }
      }
    }
    if constexpr (sums) {
      __syncthreads();
      part.add(marked, static_cast<u32>(end - first < warps ? end - first : warps), of_rows);
      __syncthreads();
    }
  }
}

__global__ void __launch_bounds__(128)
    router_sums_kernel(RouterSums sums, const double* partials, u32 parts, u32 experts, bool add) {
  const u64 i = grid_thread();
  if (i >= u64{experts} + 2) return;
  const u64 stride = 2 * u64{experts} + 2;
  double* const place = i < experts ? sums.probabilities + i : i == experts ? sums.entropy : sums.z;
  double sum = add ? *place : 0, count = 0;
  for (u32 part = 0; part < parts; ++part) {
    sum += partials[part * stride + (i < experts ? i : experts + i)];
    if (i < experts) count += partials[part * stride + experts + i];
  }
  *place = sum;
  if (i < experts) sums.counts[i] = static_cast<i32>(count) + (add ? sums.counts[i] : 0);
}

}  // namespace
}  // namespace cuda

void router_cuda(const Router& op, cudaStream_t stream) {
  using namespace cuda;
  check_rule(op.rule);
  const bool sums = op.sums.counts != nullptr;
  require(sums == (op.sums.probabilities != nullptr) && sums == (op.sums.entropy != nullptr) &&
              sums == (op.sums.z != nullptr) && sums <= (op.partials != nullptr),
          "router: sums are all set or all null, and need partials");
  const LaunchShape shape = router_launch(op.rows, op.rule.experts, sums);
  const u32 block_rows = router_block_rows(op.rows, op.rule.experts, sums);
  if (op.rows > 0 && sums) launch<router_kernel<true>>(shape, stream, op, block_rows);
  if (op.rows > 0 && !sums) launch<router_kernel<false>>(shape, stream, op, block_rows);
  if (sums) {
    launch<router_sums_kernel>(router_sums_launch(op.rule.experts), stream, op.sums, op.partials,
                               router_parts(op.rows).count, op.rule.experts, op.add_sums);
  }
}

}  // namespace tidepool
