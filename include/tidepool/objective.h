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

enum class ObjectiveType : u8 {
  next_token,
  sequence_classification,
  reward,
  dpo,
  orpo,
  cpo,
  simpo,
  kto,
  grpo,
  rloo,
  token_classification,
  distill
};
inline constexpr u32 objective_count = 12;

// As in config files.
inline constexpr std::array<std::string_view, objective_count> objective_names = {
    "next_token", "sequence_classification", "reward", "dpo", "orpo", "cpo", "simpo", "kto", "grpo",
    "rloo",       "token_classification",    "distill"};
constexpr std::string_view name(ObjectiveType type) { return objective_names[static_cast<u32>(type)]; }

// The targets that have one loss together. Those of several sequences lie in one row.
enum class LossUnit : u8 {
  target,  // each target by itself: its cross-entropy, or the divergence from a teacher's distribution
  pair,    // a chosen answer, and a rejected one to the same prompt
  judged,  // an answer that is desirable or not, and behind it the answer to another prompt, if one is needed
  rollout,  // an answer that a model has sampled, with its advantage
};

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

// How far a policy is from its reference model: what becomes of the logarithm of the ratio of their
// probabilities (Wang et al., arXiv:2309.16240). By TRL's names.
enum class FDivergence : u8 { reverse_kl, forward_kl, js_divergence, alpha_divergence };
inline constexpr std::array<std::string_view, 4> f_divergence_names = {"reverse_kl", "forward_kl",
                                                                       "js_divergence", "alpha_divergence"};

// The policy's loss of a token, by the ratio of its probability to that at which it was sampled.
enum class RolloutLoss : u8 { clipped, cispo, sapo };
enum class RatioOf : u8 { token, sequence_mean, sequence_sum };  // over whose logarithms a ratio is taken
// How the losses of tokens become the loss of a step.
enum class RolloutMean : u8 {
  of_sequences,     // mean over sequences of the mean over tokens
  of_batch_tokens,  // mean over the tokens of a micro-batch, which weighs as many sequences as it holds
  of_step_tokens,   // mean over the tokens of the step
  of_fixed_length,  // mean over sequences of the sum divided by max_completion_length
  of_sums,          // mean over sequences of the sum
};
struct RolloutRule {
  RolloutLoss loss{};
  RatioOf ratio{};
  RolloutMean mean{};
  bool corrected_kl = false;  // the divergence is weighted with the ratio
  double epsilon = 0.2, epsilon_high = 0.2;
  double delta = 0;  // the most that a ratio counts; 0: no such limit
  double fixed_length = 1;
  double positive_temperature = 1, negative_temperature = 1;  // of sapo, by the sign of the advantage

  bool operator==(const RolloutRule&) const = default;
};

// A distribution over the tokens that a teacher finds most probable, and what is left of it.
enum class Remainder : u8 {
  bucket,       // all other tokens count as one
  renormalized  // they do not count: both distributions are divided by what these tokens have
};
inline constexpr std::array<std::string_view, 2> remainder_names = {"bucket", "renormalized"};

inline constexpr u32 top_k_most = 4096;
// The divergence of a model's distributions from a teacher's, both of logits divided by `temperature`.
struct DivergenceRule {
  u32 top_k = 0;    // tokens of which the teacher's log-probability is known; 0: no divergence
  double beta = 0;  // 0: KL(teacher, model); 1: KL(model, teacher); between: Jensen-Shannon
  double temperature = 1;
  Remainder remainder{};
  u32 columns = 0;  // of the teacher's logits: tokens that the model has too; 0: all

  constexpr bool on() const { return top_k > 0; }
  // Numbers of a target: the log-probabilities, and then the tokens.
  constexpr u32 numbers() const { return 2 * top_k; }
  bool operator==(const DivergenceRule&) const = default;
};

// Output of forward passes for each target: its log-probability; its logit, the score of a reward model; or
// the numbers of the distribution that predicts it (DivergenceRule).
enum class TargetOutput : u8 { nothing, logps, scores, distributions };

// How the loss follows from what the head computes.
struct ObjectiveRule {
  LossUnit unit{};
  TargetOutput output{};  // of every target by evaluations (TargetOutputs)
  u32 sequences = 0;      // of a unit
  double beta = 0.1;      // of a rollout: weight of the divergence from the reference model
  // Pairs: the sum of `losses`, and `chosen_nll` times the mean cross-entropy of the chosen completions'
  // tokens.
  std::array<WeightedPairLoss, pair_losses_max> losses{};
  u32 loss_count = 0;
  double chosen_nll = 0;
  double label_smoothing = 0;    // of robust and exo_pair; of targets, the share that is spread over all rows
  double sigmoid_smoothing = 0;  // of sigmoid and simpo
  double margin = 0;             // simpo_gamma / beta, in means of log-probabilities
  double discopop_tau = 0.05;
  double center = 0;        // center_rewards_coefficient
  bool prompt_nll = false;  // chosen_nll is of the prompts' tokens too
  bool mean = false;        // log-probabilities and rewards are means over tokens
  bool reference = false;   // log-probabilities count less those of a reference model
  // Scores x of pairs count as (1 - exp(-score_curve x)) / score_curve, or 0: as they are; or as log 2 + log
  // sigmoid(x).
  double score_curve = 0;
  bool js_scores = false;
  double ld_alpha = 1;    // weight of the tokens by which one completion of a pair is longer than the other
  bool weighted = false;  // a pair counts by how probable its completions are (WPO)
  bool logit_metrics = false;                           // sums of entropy and logits are made
  double desirable_weight = 1, undesirable_weight = 1;  // of judged answers
  RolloutRule rollout;
  DivergenceRule divergence;

  constexpr bool units() const { return unit != LossUnit::target; }
  constexpr bool scores() const { return loss_count > 0 && losses[0].loss == PairLoss::scores; }
  // True if all logits of a row are summed, beside those sums that the cross-entropy takes.
  constexpr bool sums_logits() const { return units() && (weighted || logit_metrics); }
  constexpr bool has_values() const { return scores() || prompt_nll || unit >= LossUnit::judged; }
  // A step's loss is the mean over units; or over tokens.
  constexpr bool counts_tokens() const {
    return unit == LossUnit::rollout && rollout.mean == RolloutMean::of_step_tokens;
  }
  // True if a batch brings the distributions of a teacher.
  constexpr bool reads_distributions() const {
    return divergence.on() && output != TargetOutput::distributions;
  }
  // Numbers that an evaluation gives for each target.
  constexpr u32 outputs() const {
    return output == TargetOutput::nothing         ? 0
           : output == TargetOutput::distributions ? divergence.numbers()
                                                   : 1;
  }
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
  // Over units of all kinds.
  units,
  chosen_units,
  tokens,  // of completions
  chosen_tokens,
  chosen_correct,  // of those, the ones that have the largest logit
  entropies,       // tokens whose entropy and logits are in the sums below
  entropy,
  chosen_logits,  // means over the vocabulary
  rejected_logits,
  kl,  // of a rollout's tokens; of judged answers, the micro-batch's once for each
  ratios,
  low_clipped,
  high_clipped,
};
inline constexpr u32 sum_count = 22;

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

inline constexpr u64 beta_by_objective = 1'000'000'000;  // objective.beta: auto

enum class ImportanceLevel : u8 { token, sequence };
inline constexpr std::array<std::string_view, 2> importance_levels = {"token", "sequence"};
enum class ScaleRewards : u8 { group, none };
inline constexpr std::array<std::string_view, 2> scale_rewards_names = {"group", "none"};

// Section `objective` of a config, with TRL's names and most of its defaults (docs/objectives.md).
struct ObjectiveConfig {
  ObjectiveType type = ObjectiveType::next_token;
  double beta = beta_by_objective;
  std::vector<std::string> loss_type;  // empty: the objective's own
  std::vector<double> loss_weights;    // by loss_type; empty: all 1
  double label_smoothing = 0;
  double cpo_alpha = 1;
  double simpo_gamma = 0.5;
  double discopop_tau = 0.05;
  FDivergence f_divergence_type{};
  double f_alpha_divergence_coef = 0.5;
  double ld_alpha = 1;
  bool use_weighting = false;
  double alpha = 0;  // of AlphaPO
  double center_rewards_coefficient = 0;
  double desirable_weight = 1, undesirable_weight = 1;
  double epsilon = 0.2;
  double epsilon_high = 0;  // 0: epsilon
  double delta = 0;         // 0: none
  double sapo_temperature_pos = 1, sapo_temperature_neg = 1.05;
  bool logit_metrics = false;
  bool share_prompts = true;
  ImportanceLevel importance_sampling_level{};
  ScaleRewards scale_rewards{};
  u32 max_completion_length = 512;
  bool use_bias_correction_kl = true;
  u32 max_length = 0;     // tokens of a sequence; 0: what fits
  std::string reference;  // directory of the reference model; empty: none, or not known yet
  std::string teacher;    // directory of the teacher; empty: the documents bring its distributions
  u32 top_k = 64;
  double temperature = 1;
  Remainder remainder{};
  u32 teacher_columns = 0;  // not a key: DivergenceRule::columns, in a teacher's pass

  bool operator==(const ObjectiveConfig&) const = default;
};

// The documents that an objective takes.
enum class Documents : u8 {
  any,
  labelled,        // texts with a label
  pairs,           // a chosen and a rejected answer, whose completions are learned
  prompted_pairs,  // the same; the prompts of the chosen ones are learned too
  scored_pairs,    // the same, whose last tokens have a score
  judged,          // a prompt, its completion, and whether it is desirable
  rollouts,        // a prompt, completions that a model has sampled, and their rewards
  token_labels,    // texts whose tokens have labels
  distributions    // token ids, and a teacher's distribution behind each
};

// How rewards of a group of completions become their advantages.
struct AdvantageRule {
  bool leave_one_out = false;  // the baseline is the mean of the others; else that of all
  bool scaled = false;         // divided by the standard deviation

  bool operator==(const AdvantageRule&) const = default;
};

// UnitSettings says how documents of an objective are tokenized and packed.
struct UnitSettings {
  Documents documents = Documents::any;
  // Numbers that documents bring for each token: of rollouts its log-probability, of texts whose tokens have
  // labels the label, of distributions as DivergenceRule says.
  u32 numbers = 0;
  double temperature = 1;       // at which distributions that documents bring were made
  bool taught = false;          // a teacher's distributions come with the tokens, or are made before training
  u32 sequences = 0;            // of a unit, which lies in one row; 0: documents are no units
  u32 sequence_tokens_max = 0;  // the end of a longer completion is cut off
  bool count_tokens = false;    // the targets of a row are its tokens, not its units
  bool shares = false;          // a prompt stands once in a row for the sequences that follow it
  AdvantageRule advantages;
  TargetOutput scoring{};  // each document is a unit of one sequence, and this is its output

  bool on() const { return sequences > 0; }
  // A sequence's last token has a score.
  bool scored() const { return documents == Documents::scored_pairs || scoring == TargetOutput::scores; }
  bool operator==(const UnitSettings&) const = default;
};

constexpr u32 ObjectiveRule::sums() const { return units() ? sum_count : 1; }

}  // namespace tidepool
