// ObjectiveType names what training makes a model better at, and ObjectiveRule is what a graph keeps of it:
// how the loss follows from what the head computes. src/objectives says what an objective means for the other
// parts of a run.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tidepool {

enum class ObjectiveType : u8 { next_token, sequence_classification, reward, dpo, orpo, cpo, simpo };
inline constexpr u32 objective_count = 7;

// As in config files.
inline constexpr std::array<std::string_view, objective_count> objective_names = {
    "next_token", "sequence_classification", "reward", "dpo", "orpo", "cpo", "simpo"};
constexpr std::string_view name(ObjectiveType type) { return objective_names[static_cast<u32>(type)]; }

// Losses of a pair of sequences, chosen and rejected: kernels/objective/pair_losses.h has their formulas.
enum class PairLoss : u8 {
  // Values of objective.loss_type, by TRL's names.
  sigmoid,
  hinge,
  ipo,
  sigmoid_norm,
  robust,
  exo_pair,
  nca_pair,
  bco_pair,
  sppo_hard,
  apo_zero,
  apo_down,
  discopop,
  simpo,
  // The only losses of an objective.
  odds_ratio,  // ORPO
  scores,      // of reward models
};
inline constexpr u32 named_pair_losses = 13;
inline constexpr std::array<std::string_view, named_pair_losses> pair_loss_names = {
    "sigmoid",  "hinge",     "ipo",      "sigmoid_norm", "robust",   "exo_pair", "nca_pair",
    "bco_pair", "sppo_hard", "apo_zero", "apo_down",     "discopop", "simpo"};
// The value of objective.loss_type for the cross-entropy of the chosen completions.
inline constexpr std::string_view chosen_nll_name = "sft";

struct WeightedPairLoss {
  PairLoss loss{};
  double weight = 1;

  bool operator==(const WeightedPairLoss&) const = default;
};
inline constexpr u32 pair_losses_max = 4;

// The loss of each target by itself, its cross-entropy, if there are no losses of pairs. Else the loss of
// pairs: the sum of `losses`, and `chosen_nll` times the mean cross-entropy of the chosen completions'
// tokens.
struct ObjectiveRule {
  std::array<WeightedPairLoss, pair_losses_max> losses{};
  u32 loss_count = 0;
  double chosen_nll = 0;
  double beta = 0.1;
  double label_smoothing = 0;    // of robust and exo_pair
  double sigmoid_smoothing = 0;  // of sigmoid and simpo
  double margin = 0;             // simpo_gamma / beta, in means of log-probabilities
  double discopop_tau = 0.05;
  double center = 0;        // center_rewards_coefficient
  bool prompt_nll = false;  // chosen_nll is of the prompts' tokens too
  bool mean = false;        // log-probabilities and rewards are told as means over tokens
  bool reference = false;   // log-probabilities count less those of a reference model

  constexpr bool pairs() const { return loss_count > 0 || chosen_nll != 0; }
  constexpr bool scores() const { return loss_count > 0 && losses[0].loss == PairLoss::scores; }
  // Sums of a step that are more than zeros.
  constexpr u32 sums() const;
  bool operator==(const ObjectiveRule&) const = default;
};

// Sums that the head makes over the targets of a micro-batch, in fp64 and in the order of rows.
enum class Sum : u8 {
  loss,
  correct,  // targets that have the largest logit; pairs whose chosen sequence has the higher reward
  // Over pairs.
  chosen_rewards,
  rejected_rewards,
  chosen_logps,
  rejected_logps,
  chosen_nll,
  log_odds_ratio,  // log sigmoid of the log odds
  log_odds,
};
inline constexpr u32 sum_count = 9;

class Sums {
 public:
  static constexpr Sums of_loss(double loss) {
    Sums out;
    out[Sum::loss] = loss;
    return out;
  }
  constexpr double& operator[](Sum sum) { return values_[static_cast<u32>(sum)]; }
  constexpr double operator[](Sum sum) const { return values_[static_cast<u32>(sum)]; }
  constexpr void add(const Sums& other) {
    for (u32 i = 0; i < sum_count; ++i) values_[i] += other.values_[i];
  }
  constexpr double* begin() { return values_; }
  constexpr const double* begin() const { return values_; }

 private:
  double values_[sum_count]{};
};

// Section `objective` of a config, with TRL's names and defaults.
struct ObjectiveConfig {
  ObjectiveType type = ObjectiveType::next_token;
  double beta = 0.1;
  std::vector<std::string> loss_type;  // empty: the objective's own
  std::vector<double> loss_weights;    // by loss_type; empty: all 1
  double label_smoothing = 0;
  double cpo_alpha = 1;
  double simpo_gamma = 0.5;
  double discopop_tau = 0.05;
  double center_rewards_coefficient = 0;
  u32 max_length = 0;     // tokens of a sequence; 0: what fits
  std::string reference;  // directory of the reference model; empty: none, or not known yet

  bool operator==(const ObjectiveConfig&) const = default;
};

// The documents that an objective takes.
enum class Documents : u8 {
  any,
  labelled,        // texts with a label
  pairs,           // a chosen and a rejected answer, whose completions are learned
  prompted_pairs,  // the same; the prompts of the chosen ones are learned too
  scored_pairs     // the same, whose last tokens have a score
};

constexpr u32 ObjectiveRule::sums() const { return pairs() ? sum_count : 1; }

}  // namespace tidepool
