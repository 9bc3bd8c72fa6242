// pair_loss() is the loss of a pair by the scores of its two sequences. Formulas and names are TRL's (1.16,
// DPOTrainer and CPOTrainer), each after the paper that gave it its name.
#pragma once

#include "kernels/objective/dual.h"
#include "tidepool/objective.h"

namespace tidepool {

// RETURNS: a score as it counts where scores are compared. The curve is that of divergences other than the
// reverse KL (Wang et al., arXiv:2309.16240), and of AlphaPO (Gupta et al., arXiv:2501.03884).
constexpr Dual curved(const ObjectiveRule& rule, Dual score) {
  constexpr double log_2 = 0.693147180559945309, most = 80;
  if (rule.js_scores) return log_sigmoid(score) + log_2;
  if (rule.score_curve == 0) return score;
  const Dual exponent = -rule.score_curve * score;
  return 1 / rule.score_curve * (1 - exponential(exponent.value > most ? Dual{most} : exponent));
}

// Scores of a pair: sums of log-probabilities over the tokens of each completion, less those of the reference
// if there is one; of a reward model, rewards.
struct PairScores {
  Dual chosen, rejected;
  double chosen_tokens = 1, rejected_tokens = 1;
  double margin = 0;  // of reward models: by which the chosen sequence is better, as the data says
  // As they count, and per token.
  Dual difference, mean_difference;

  constexpr PairScores(const ObjectiveRule& rule, Dual of_chosen, double tokens_of_chosen, Dual of_rejected,
                       double tokens_of_rejected)
      : chosen(of_chosen),
        rejected(of_rejected),
        chosen_tokens(tokens_of_chosen),
        rejected_tokens(tokens_of_rejected),
        difference(curved(rule, chosen) - curved(rule, rejected)),
        mean_difference(rule.mean ? curved(rule, mean_chosen()) - curved(rule, mean_rejected())
                                  : 1 / chosen_tokens * curved(rule, chosen) -
                                        1 / rejected_tokens * curved(rule, rejected)) {}

  constexpr Dual mean_chosen() const { return 1 / chosen_tokens * chosen; }
  constexpr Dual mean_rejected() const { return 1 / rejected_tokens * rejected; }
};

// As if labels were wrong with probability `smoothing`.
constexpr Dual smoothed_loss(double smoothing, Dual x) {
  const Dual right = -log_sigmoid(x);
  return smoothing == 0 ? right : (1 - smoothing) * right - smoothing * log_sigmoid(-x);
}

// ORPO: logarithm of the ratio of the odds of both completions.
constexpr Dual log_odds(const PairScores& s) {
  return s.mean_chosen() - s.mean_rejected() - (log1mexp(s.mean_chosen()) - log1mexp(s.mean_rejected()));
}

constexpr Dual exo_loss(double smoothing, Dual x) {
  const double wrong = smoothing > 0 ? smoothing : 1e-9;
  return sigmoid(x) * (log_sigmoid(x) - log1p(-wrong)) + sigmoid(-x) * (log_sigmoid(-x) - log(wrong));
}

constexpr Dual discopop_loss(double tau, Dual x) {
  const Dual blend = sigmoid(1 / tau * x);
  return (1 - blend) * -log_sigmoid(x) + blend * exponential(-x);
}

constexpr Dual pair_loss(PairLoss loss, const ObjectiveRule& rule, const PairScores& s) {
  const double beta = rule.beta, smoothing = rule.label_smoothing;
  const Dual x = beta * s.difference, chosen = beta * s.chosen, rejected = beta * s.rejected;
  switch (loss) {
    case PairLoss::sigmoid:
      return smoothed_loss(rule.sigmoid_smoothing, x);
    case PairLoss::hinge:
      return relu(1 - x);
    case PairLoss::ipo:
      return square(s.mean_difference - 1 / (2 * beta));
    case PairLoss::sigmoid_norm:
      return -log_sigmoid(beta * s.mean_difference);
    case PairLoss::robust:
      return 1 / (1 - 2 * smoothing) * (smoothing * log_sigmoid(-x) - (1 - smoothing) * log_sigmoid(x));
    case PairLoss::exo_pair:
      return exo_loss(smoothing, x);
    case PairLoss::nca_pair:
      return -log_sigmoid(chosen) - 0.5 * log_sigmoid(-chosen) - 0.5 * log_sigmoid(-rejected);
    case PairLoss::bco_pair:
      return -log_sigmoid(chosen) - log_sigmoid(-rejected);
    case PairLoss::sppo_hard:
      return square(s.chosen - 1 / (2 * beta)) + square(s.rejected + 1 / (2 * beta));
    case PairLoss::apo_zero:
      return 1 - sigmoid(chosen) + sigmoid(rejected);
    case PairLoss::apo_down:
      return sigmoid(chosen) + 1 - sigmoid(x);
    case PairLoss::discopop:
      return discopop_loss(rule.discopop_tau, x);
    case PairLoss::simpo:
      return smoothed_loss(rule.sigmoid_smoothing, beta * (s.mean_difference - rule.margin));
    case PairLoss::odds_ratio:
      return -beta * log_sigmoid(log_odds(s));
    case PairLoss::scores:
      return -log_sigmoid(s.difference - s.margin) + rule.center * square(s.chosen + s.rejected);
  }
  return {};
}

}  // namespace tidepool
