#include "kernels/router/router.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/router/router_rows.h"

namespace tidepool {
namespace {

constexpr u32 part_rows_min = 16;

// Rows of a part, and the number of parts: of the shape only.
struct Parts {
  u32 rows, count;
};
Parts parts_of(u32 rows) {
  const u32 each = std::max(part_rows_min, static_cast<u32>(div_up(rows, router_parts_max)));
  return {each, static_cast<u32>(div_up(rows, each))};
}

struct RouterScratch {
  float p[router_experts_max];       // softmax over all E
  float scores[router_experts_max];  // for the choice
  u32 keys[3 * router_experts_max];
};

// One part's sums.
struct PartSums {
  double *probabilities = nullptr, *counts = nullptr, *entropy = nullptr, *z = nullptr;
};
PartSums sums_of_part(const Router& op, u32 part) {
  if (op.sums.counts == nullptr) return {};
  const u64 experts = op.rule.experts;
  double* begin = op.partials + part * (2 * experts + 2);
  return {begin, begin + experts, begin + 2 * experts, begin + 2 * experts + 1};
}

void add_row(const Router& op, const float* logits, float lse, const float* p, const i32* chosen,
             const PartSums& sums) {
  double entropy = 0;
  for (u32 expert = 0; expert < op.rule.experts; ++expert) {
    const double share = p[expert];
    sums.probabilities[expert] += share;
    if (share != 0) entropy += share * (double{lse} - double{logits[expert]});  // 0 log 0 = 0; NaN is not 0
  }
  for (u32 j = 0; j < op.rule.chosen; ++j) sums.counts[chosen[j]] += 1;
  *sums.entropy += entropy;
  *sums.z += double{lse} * double{lse};
}

// Scores for the choice; the router's logits themselves unless the rule has sigmoids.
const float* scores_of(const Router& op, const float* logits, float* scores) {
  if (op.rule.scores != RouterScores::sigmoid) return logits;
  for (u32 expert = 0; expert < op.rule.experts; ++expert) {
    scores[expert] = logistic(logits[expert]).open;
    if (op.correction != nullptr) scores[expert] += op.correction[expert];
  }
  return scores;
}

void weigh(const Router& op, const float* logits, const float* p, const i32* chosen, float* weights) {
  const RouterRule& rule = op.rule;
  float sum = rule.scores == RouterScores::sigmoid ? 1e-20f : 0.0f;
  if (rule.scores == RouterScores::chosen_softmax) {
    chosen_softmax(logits, chosen, rule.chosen, weights);
  } else {
    float total = 0;
    for (u32 j = 0; j < rule.chosen; ++j) {
      const i32 expert = chosen[j];
      total += weights[j] = rule.scores == RouterScores::sigmoid ? logistic(logits[expert]).open : p[expert];
    }
    sum += total;
    if (rule.normalise) {
      for (u32 j = 0; j < rule.chosen; ++j) weights[j] /= sum;
    }
  }
  for (u32 j = 0; j < rule.chosen; ++j) weights[j] *= rule.scale;
  for (u32 j = 0; op.factors != nullptr && j < rule.chosen; ++j) weights[j] *= op.factors[chosen[j]];
}

void route_row(const Router& op, u32 row, RouterScratch& s, const PartSums& sums) {
  const RouterRule& rule = op.rule;
  const float* logits = op.logits + u64{row} * rule.experts;
  i32* chosen = op.experts + u64{row} * rule.chosen;
  float* weights = op.weights + u64{row} * rule.chosen;
  const bool numbers = choose_experts(rule, scores_of(op, logits, s.scores), s.keys, chosen);
  float lse = 0;
  if (sums.counts != nullptr || rule.scores == RouterScores::softmax) {
    lse = router_softmax(logits, rule.experts, s.p);
  }
  weigh(op, logits, s.p, chosen, weights);
  if (!numbers) std::fill_n(weights, rule.chosen, std::numeric_limits<float>::quiet_NaN());
  const bool padding = op.targets != nullptr && op.targets[row] == padding_target;
  if (sums.counts != nullptr && !padding) add_row(op, logits, lse, s.p, chosen, sums);
}

void finish_sums(const Router& op, u32 parts) {
  const u32 experts = op.rule.experts;
  if (!op.add_sums) {
    *op.sums.entropy = *op.sums.z = 0;
    std::fill_n(op.sums.probabilities, experts, 0.0);
    std::fill_n(op.sums.counts, experts, 0);
  }
  for (u32 part = 0; part < parts; ++part) {
    const PartSums sums = sums_of_part(op, part);
    for (u32 expert = 0; expert < experts; ++expert) {
      op.sums.probabilities[expert] += sums.probabilities[expert];
      op.sums.counts[expert] += static_cast<i32>(sums.counts[expert]);
    }
    *op.sums.entropy += *sums.entropy;
    *op.sums.z += *sums.z;
  }
}

}  // namespace

void check_rule(const RouterRule& r) {
  CHECK(r.experts >= 1 && r.experts <= router_experts_max, r.experts);
  CHECK(r.chosen >= 1 && r.chosen <= r.experts, r.chosen, r.experts);
  if (r.scores != RouterScores::sigmoid) return;
  CHECK(r.groups >= 1 && r.experts % r.groups == 0, r.groups, r.experts);
  CHECK(r.chosen_groups >= 1 && r.chosen_groups <= r.groups, r.chosen_groups, r.groups);
  CHECK(r.chosen <= u64{r.chosen_groups} * (r.experts / r.groups), r.chosen, r.chosen_groups);
}

void router_cpu(const Router& op, CorePool& pool) {
  static_assert(sizeof(RouterScratch) <= mib);
  check_rule(op.rule);
  CHECK(pool.scratch_bytes().value >= sizeof(RouterScratch), pool.scratch_bytes().value);
  const bool sums = op.sums.counts != nullptr;
  CHECK(sums == (op.sums.probabilities != nullptr) && sums == (op.sums.entropy != nullptr) &&
        sums == (op.sums.z != nullptr) && sums <= (op.partials != nullptr));
  const Parts parts = parts_of(op.rows);
  parallel_for(pool, Priority::normal, parts.count, [&](u32 part, u32 worker) {
    auto& scratch = *reinterpret_cast<RouterScratch*>(pool.scratch(worker));
    const PartSums part_sums = sums_of_part(op, part);
    if (sums) std::fill_n(part_sums.probabilities, 2 * u64{op.rule.experts} + 2, 0.0);
    const u32 end = std::min((part + 1) * parts.rows, op.rows);
    for (u32 row = part * parts.rows; row < end; ++row) {
      route_row(op, row, scratch, part_sums);
    }
  });
  if (sums) finish_sums(op, parts.count);
}

}  // namespace tidepool
