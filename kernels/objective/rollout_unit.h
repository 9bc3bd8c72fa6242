// The loss of a sampled completion by its advantage: a token becomes more probable where the advantage is
// positive, as long as the ratio of its probability to that at which it was sampled is within limits.
// Formulas are TRL's (1.16, GRPOTrainer and RLOOTrainer).
#pragma once

#include "kernels/objective/dual.h"
#include "kernels/objective/unit_parts.h"

namespace tidepool {

// The policy's loss of a token: constant + by_logp * its log-probability.
struct PolicyLoss {
  double constant = 0, by_logp = 0;
  double by_ratio = 0;  // derivative of the constant
  bool low = false, high = false;
};
constexpr PolicyLoss policy_loss(const RolloutRule& r, double advantage, double ratio) {
  if (r.loss == RolloutLoss::cispo) {
    const double counted = ratio < r.epsilon_high ? ratio : r.epsilon_high;
    return {.by_logp = -counted * advantage, .high = ratio > r.epsilon_high && advantage > 0};
  }
  if (r.loss == RolloutLoss::sapo) {
    const double temperature = advantage > 0 ? r.positive_temperature : r.negative_temperature;
    const double gate = sigmoid_of(temperature * (ratio - 1));
    return {.constant = -advantage * 4 / temperature * gate, .by_ratio = -advantage * 4 * gate * (1 - gate)};
  }
  const double least = 1 - r.epsilon, most = 1 + r.epsilon_high;
  const bool capped = r.delta > 0 && ratio > r.delta;
  const double free = capped ? r.delta : ratio;
  const double clipped = ratio < least ? least : ratio > most ? most : ratio;
  const bool takes_free = free * advantage <= clipped * advantage;
  const bool low = free < least;
  const bool high = free > most;
  return {.constant = -advantage * (takes_free ? free : clipped),
          .by_ratio = takes_free && !capped ? -advantage : 0,
          .low = low && advantage < 0,
          .high = high && advantage > 0};
}

// The divergence from the reference model at one token, as the k3 estimate, and its derivative.
struct TokenDivergence {
  double value = 0, by_logp = 0;
};
constexpr TokenDivergence divergence_at(const UnitLosses& u, u32 row, double logp) {
  if (u.references == nullptr) return {};
  const double difference = double{u.references[row]} - logp, e = expm1(difference);
  return {e - difference, -e};
}

// Ratio and loss of one token, or of all tokens of a completion together.
struct RolloutTerms {
  double ratio = 1;
  PolicyLoss policy;
};

class Rollout {
 public:
  constexpr Rollout(const UnitLosses& u, u32 place)
      : u_(u), sums_(u.of_sequences[place]), place_(place), advantage_(u.values[place]) {
    const double tokens = sums_.targets > 0 ? sums_.targets : 1;
    if (rule().ratio == RatioOf::token) return;
    share_ = rule().ratio == RatioOf::sequence_mean ? 1 / tokens : 1;
    whole_ = terms(exp(share_ * (sums_.logps - sums_.old_logps)));
  }

  // RETURNS: the unit's sums; sets the factors of its rows.
  constexpr Sums loss(const UnitTotals& totals) const {
    Sums out;
    double loss = 0;
    for_tokens([&](u32, double logp, const RolloutTerms& t, const TokenDivergence& d) {
      const double kl = corrected(t) * d.value;
      loss += t.policy.constant + t.policy.by_logp * logp + u_.rule.beta * kl;
      out[Sum::kl] += kl;
      if (by_token()) count(t.policy, out);
    });
    if (!by_token()) count(whole_.policy, out);
    const double scale = scale_of(totals);
    if (u_.factors != nullptr) set_rows(scale, out[Sum::kl]);
    out[Sum::loss] = scale * loss;
    out[Sum::units] = 1;
    add_token_metrics(u_, sums_, advantage_ > 0, out);
    return out;
  }

 private:
  constexpr const RolloutRule& rule() const { return u_.rule.rollout; }
  constexpr bool by_token() const { return rule().ratio == RatioOf::token; }
  constexpr RolloutTerms terms(double ratio) const { return {ratio, policy_loss(rule(), advantage_, ratio)}; }
  constexpr double corrected(const RolloutTerms& t) const { return rule().corrected_kl ? t.ratio : 1; }
  static constexpr void count(const PolicyLoss& policy, Sums& out) {
    out[Sum::ratios] += 1;
    out[Sum::low_clipped] += policy.low ? 1 : 0, out[Sum::high_clipped] += policy.high ? 1 : 0;
  }

  template <class Fn>
  constexpr void for_tokens(Fn fn) const {
    for (u32 row = place_; row < place_ + sums_.places; ++row) {
      if (!has_loss(u_.targets[row])) continue;
      const double logp = double{u_.losses[row].target} - double{u_.losses[row].lse};
      fn(row, logp, by_token() ? terms(exp(logp - double{u_.old_logps[row]})) : whole_,
         divergence_at(u_, row, logp));
    }
  }

  // `kl`: sum over the tokens.
  constexpr void set_rows(double scale, double kl) const {
    const double beta = u_.rule.beta, of_kl = rule().corrected_kl ? beta : 0;
    for_tokens([&](u32 row, double, const RolloutTerms& t, const TokenDivergence& d) {
      // The derivative by way of the ratio, which each token changes, or all tokens together.
      const double by_ratio = by_token()
                                  ? t.ratio * (t.policy.by_ratio + of_kl * d.value)
                                  : share_ * (sums_.targets * t.ratio * t.policy.by_ratio + of_kl * kl);
      set_factor(u_, row, scale * (by_ratio + t.policy.by_logp + beta * corrected(t) * d.by_logp));
    });
  }

  constexpr double scale_of(const UnitTotals& totals) const {
    switch (rule().mean) {
      case RolloutMean::of_sequences:
        return sums_.targets > 0 ? 1.0 / sums_.targets : 1;
      case RolloutMean::of_batch_tokens:
        return static_cast<double>(totals.units) / (totals.first_targets > 0 ? totals.first_targets : 1);
      case RolloutMean::of_fixed_length:
        return 1 / rule().fixed_length;
      case RolloutMean::of_step_tokens:
      case RolloutMean::of_sums:
        return 1;
    }
    return 1;
  }

  const UnitLosses& u_;
  const SequenceSums sums_;
  const u32 place_;
  const double advantage_;
  double share_ = 1;
  RolloutTerms whole_;
};

}  // namespace tidepool
