// Router chooses k of E experts for each token, with their weights, and RouterBackward turns the gradients of
// those weights, the load-balancing loss and the z loss into a gradient of the router's logits.
//
// Load balancing (Fedus et al., arXiv:2101.03961, equations 4 to 6) as transformers sums it, over all layers:
// aux = E sum_e F[e] P[e], with F[e] = tokens of expert e / N and P[e] the mean of the softmax over all E.
// The gradient flows through P alone. z loss (Zoph et al., arXiv:2202.08906): mean(logsumexp(logits)^2).
//
// N, the rows that means are over, are the tokens of all layers. Rows of padding are routed like others,
// because experts compute all rows, but they are in no sum and have no gradient. Each token chooses k
// experts, so N is the sum of all counts / k, and no array says it.
#pragma once

#include "base/types.h"
#include "tidepool/core_pool.h"
#include "tidepool/ignored_target.h"

namespace tidepool {

enum class RouterScores : u8 {
  softmax,         // softmax over all E; weights are the chosen experts' (Mixtral, Qwen3-MoE)
  chosen_softmax,  // softmax over the k chosen logits (gpt-oss)
  sigmoid,  // the choice is made on sigmoid + correction, in groups; weights are sigmoids (DeepSeek-V3)
};

struct RouterRule {
  u32 experts = 0, chosen = 0;  // E, k
  RouterScores scores = RouterScores::softmax;
  bool normalise = false;  // weights are divided by their sum, with sigmoid by sum + 1e-20
  float scale = 1;         // factor on weights, after normalising
  // sigmoid only: the score of a group is the sum of its two best choice scores. Experts of all but the best
  // `chosen_groups` groups cannot be chosen. Groups are runs of E / groups experts.
  u32 groups = 1, chosen_groups = 1;

  bool operator==(const RouterRule&) const = default;
};
inline constexpr u32 router_experts_max = 4096;
// Checks that the numbers of the rule fit each other.
void check_rule(const RouterRule&);

// Sums over the tokens of one layer and micro-batch, in fixed order. All null: not computed.
struct RouterSums {
  i32* counts = nullptr;            // [E] tokens that chose the expert
  double* probabilities = nullptr;  // [E] softmax over all E
  double* entropy = nullptr;        // [1] entropy of the softmax over all E, in nats
  double* z = nullptr;              // [1] logsumexp(logits)^2
};

// NaN counts as the lowest score. A row with a NaN among its scores for the choice gets valid experts and NaN
// weights, so that the loss shows it.
struct Router {
  RouterRule rule;
  u32 rows = 0;                       // R
  const float* logits = nullptr;      // [R, E]
  const float* correction = nullptr;  // [E], or null; sigmoid only
  const float* factors = nullptr;     // [E], or null: 1; on weights of an expert, beside rule.scale
  const i32* targets = nullptr;       // [R]: padding_target in rows of padding; or null: all rows are tokens
  i32* experts = nullptr;             // [R, k] best score first, ties to the lower index
  float* weights = nullptr;           // [R, k]
  RouterSums sums;                    // all set, or all null
  bool add_sums = false;              // sums are added to those of earlier rows; false: overwritten
  double* partials = nullptr;         // workspace, [router_partials(E)]; null without sums
};
void router_cpu(const Router&, CorePool&);

// Rows are summed in at most this many parts, in order.
inline constexpr u32 router_parts_max = 64;
// Per part: probabilities [E], counts [E] (exact in double), entropy, z.
constexpr u64 router_partials(u64 experts) { return router_parts_max * (2 * experts + 2); }

// Coefficients of the losses, for means over the micro-batches of a step. A loss is left out if its factor is
// zero.
struct RouterLossFactors {
  double balance = 0, z = 0;
  u32 micro_batches = 1;
};
// Rows without a token have a gradient of zero.
struct RouterBackward {
  RouterRule rule;
  u32 rows = 0;                     // R
  const float* logits = nullptr;    // [R, E]
  const i32* experts = nullptr;     // [R, k] as the forward chose
  const float* dweights = nullptr;  // [R, k], or null: zeros. Carries the loss scale already
  const float* factors = nullptr;   // [E], as in the forward
  const i32* targets = nullptr;     // [R], as in the forward
  // Counts of all layers give N, and the gradient of load balancing: of this layer's softmax P[t, e] it is
  // balance_scale sum_l counts[l, e].
  const i32* counts = nullptr;  // [layers, E] of this micro-batch, or null: no losses
  u32 layers = 0;
  RouterLossFactors losses;
  const float* loss_scale = nullptr;  // device memory, factor on both losses; null: 1
  float* dlogits = nullptr;           // [R, E]; may be logits
  // [R, k], with factors that have gradients: the share of each choice in that of its expert's factor.
  // REQUIRES: can_have_factors().
  float* dfactors = nullptr;
};
void router_backward_cpu(const RouterBackward&, CorePool&);

// True if the weights are a softmax over the chosen logits, as factors need, and have gradients.
inline bool can_have_factors(const RouterBackward& op) {
  const bool softmax = op.rule.scores == RouterScores::softmax && op.rule.normalise;
  return op.factors != nullptr && op.dweights != nullptr &&
         (softmax || op.rule.scores == RouterScores::chosen_softmax);
}

// Factors in the gradient of one row; zero without any token.
struct RouterLossScales {
  float balance = 0;  // coefficient E / N^2
  float z = 0;        // coefficient / N: the gradient of a logit is z 2 logsumexp P
};
// choices: sum of all counts.
constexpr RouterLossScales router_loss_scales(const RouterRule& rule, const RouterLossFactors& losses,
                                              double choices) {
  if (choices == 0) return {};
  const double rows = choices / rule.chosen;
  return {static_cast<float>(losses.balance * rule.experts / (rows * rows * losses.micro_batches)),
          static_cast<float>(losses.z / (rows * losses.micro_batches))};
}

}  // namespace tidepool
