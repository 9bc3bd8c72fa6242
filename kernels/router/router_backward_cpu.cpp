#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/router/router.h"
#include "kernels/router/router_rows.h"

namespace tidepool {
namespace {

constexpr u32 backward_task_rows = 64;

struct RouterBackwardScratch {
  float logits[router_experts_max], p[router_experts_max], dp[router_experts_max];
  float q[router_experts_max];         // softmax over the chosen
  float dweights[router_experts_max];  // before factors
  float balance[router_experts_max];   // gradient of every row's P
};

// Scales include the loss scale.
RouterLossScales scales_of(const RouterBackward& op) {
  i64 choices = 0;
  for (u64 i = 0; op.counts != nullptr && i < u64{op.layers} * op.rule.experts; ++i) choices += op.counts[i];
  const RouterLossScales scales = router_loss_scales(op.rule, op.losses, static_cast<double>(choices));
  const float loss_scale = op.loss_scale != nullptr ? *op.loss_scale : 1.0f;
  return {scales.balance * loss_scale, scales.z * loss_scale};
}

void balance_gradient(const RouterBackward& op, float scale, float* balance) {
  const u32 experts = op.rule.experts;
  for (u32 expert = 0; expert < experts; ++expert) {
    i64 tokens = 0;
    for (u32 layer = 0; layer < op.layers; ++layer) tokens += op.counts[u64{layer} * experts + expert];
    balance[expert] = scale * static_cast<float>(tokens);
  }
}

// dlogits of everything that depends on the softmax over all E: P (dP - <dP, P>) + scales.z 2 logsumexp P.
void through_softmax(const RouterBackward& op, const RouterLossScales& scales, RouterBackwardScratch& s,
                     const i32* chosen, const float* dweights, float* dlogits) {
  const u32 experts = op.rule.experts;
  const bool weights = dweights != nullptr && op.rule.scores == RouterScores::softmax && !op.rule.normalise;
  if (!weights && scales.balance == 0 && scales.z == 0) return std::fill_n(dlogits, experts, 0.0f), void();
  if (scales.balance != 0) {
    std::memcpy(s.dp, s.balance, experts * sizeof(float));
  } else {
    std::fill_n(s.dp, experts, 0.0f);
  }
  if (weights) {
    for (u32 j = 0; j < op.rule.chosen; ++j) s.dp[chosen[j]] += op.rule.scale * dweights[j];
  }
  const float lse = router_softmax(s.logits, experts, s.p);
  double mean = 0;
  for (u32 expert = 0; expert < experts; ++expert) mean += double{s.dp[expert]} * double{s.p[expert]};
  const float z = 2 * scales.z * lse;
  for (u32 expert = 0; expert < experts; ++expert) {
    const float rise = static_cast<float>(double{s.dp[expert]} - mean);
    dlogits[expert] = s.p[expert] * (rise + z);
  }
}

// Weights that are a softmax over the chosen logits: q (dw - <q, dw>).
void through_chosen_softmax(const RouterRule& rule, RouterBackwardScratch& s, const i32* chosen,
                            const float* dweights, float* dlogits) {
  chosen_softmax(s.logits, chosen, rule.chosen, s.q);
  float mean = 0;
  for (u32 j = 0; j < rule.chosen; ++j) mean += s.q[j] * dweights[j];
  for (u32 j = 0; j < rule.chosen; ++j) {
    dlogits[chosen[j]] += rule.scale * s.q[j] * (dweights[j] - mean);
  }
}

void through_sigmoid(const RouterRule& rule, RouterBackwardScratch& s, const i32* chosen,
                     const float* dweights, float* dlogits) {
  float sum = 1, mean = 0;
  if (rule.normalise) {
    sum = 0;
    for (u32 j = 0; j < rule.chosen; ++j) sum += logistic(s.logits[chosen[j]]).open;
    sum += 1e-20f;
    for (u32 j = 0; j < rule.chosen; ++j) mean += logistic(s.logits[chosen[j]]).open / sum * dweights[j];
  }
  for (u32 j = 0; j < rule.chosen; ++j) {
    const Logistic gate = logistic(s.logits[chosen[j]]);
    dlogits[chosen[j]] += rule.scale / sum * (dweights[j] - mean) * gate.open * gate.closed;
  }
}

const float* before_factors(const RouterBackward& op, const i32* chosen, const float* dweights, float* out) {
  for (u32 j = 0; j < op.rule.chosen; ++j) out[j] = dweights[j] * op.factors[chosen[j]];
  return out;
}

void backward_row(const RouterBackward& op, const RouterLossScales& scales, u32 row,
                  RouterBackwardScratch& s) {
  const RouterRule& rule = op.rule;
  const i32* chosen = op.experts + u64{row} * rule.chosen;
  const u64 first = u64{row} * rule.chosen;
  const float* dweights = op.dweights != nullptr ? op.dweights + first : nullptr;
  float* dfactors = op.dfactors != nullptr ? op.dfactors + first : nullptr;
  float* dlogits = op.dlogits + u64{row} * rule.experts;
  if (op.targets != nullptr && op.targets[row] == padding_target) {
    if (dfactors != nullptr) std::fill_n(dfactors, rule.chosen, 0.0f);
    return std::fill_n(dlogits, rule.experts, 0.0f), void();
  }
  std::memcpy(s.logits, op.logits + u64{row} * rule.experts, rule.experts * sizeof(float));
  if (op.factors != nullptr && dweights != nullptr)
    dweights = before_factors(op, chosen, dweights, s.dweights);
  through_softmax(op, scales, s, chosen, dweights, dlogits);
  if (dweights == nullptr) return;
  if (rule.scores == RouterScores::sigmoid) return through_sigmoid(rule, s, chosen, dweights, dlogits);
  if (rule.scores == RouterScores::chosen_softmax || rule.normalise) {
    through_chosen_softmax(rule, s, chosen, dweights, dlogits);
    for (u32 j = 0; dfactors != nullptr && j < rule.chosen; ++j)
      dfactors[j] = rule.scale * s.q[j] * op.dweights[first + j];
  }
}

}  // namespace

void router_backward_cpu(const RouterBackward& op, CorePool& pool) {
  static_assert(sizeof(RouterBackwardScratch) <= mib);
  check_rule(op.rule);
  CHECK(op.dfactors == nullptr || can_have_factors(op), op.rows);
  const RouterLossScales scales = scales_of(op);
  const u32 tasks = static_cast<u32>(div_up(op.rows, backward_task_rows));
  parallel_for(pool, Priority::normal, tasks, [&](u32 task, u32 worker) {
    auto& scratch = *reinterpret_cast<RouterBackwardScratch*>(pool.scratch(worker));
    if (scales.balance != 0) balance_gradient(op, scales.balance, scratch.balance);
    const u32 end = std::min((task + 1) * backward_task_rows, op.rows);
    for (u32 row = task * backward_task_rows; row < end; ++row) backward_row(op, scales, row, scratch);
  });
}

}  // namespace tidepool
