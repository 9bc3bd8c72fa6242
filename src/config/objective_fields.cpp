// Keys of section `objective`.
#include <array>

#include "config/schema.h"

namespace tidepool {
namespace {

using Names = std::span<const std::string_view>;

const std::array objective_table = std::to_array<Field>({
    {.section = "objective",
     .key = "type",
     .ref = +[](Config& c) { return ChoiceRef{reinterpret_cast<u8*>(&c.objective.type)}; },
     .help =
         "next_token: each token predicts the token behind it. sequence_classification: the last token of a "
         "text predicts its label; JSONL lines with text and label. reward: the last token of a text gives a "
         "score. dpo, orpo, cpo, simpo: preferences; JSONL lines with chosen and rejected, as for reward. "
         "kto: "
         "lines with prompt, completion and label. grpo, rloo: rollouts; lines with prompt, completions and "
         "rewards. token_classification: each token predicts its label; lines with tokens and labels. "
         "distill: "
         "each token predicts what a teacher does. Default: as the model directory says",
     .choices = Names(objective_names)},
    {.section = "objective",
     .key = "num_labels",
     .ref = +[](Config& c) { return &c.model.score.labels; },
     .help = "sequence_classification, token_classification: number of labels; auto: of `labels`, or as the "
             "model directory says",
     .range = {0, 1e6},
     .automatic = 0},
    {.section = "objective",
     .key = "labels",
     .ref = +[](Config& c) { return &c.model.score.names; },
     .help = "sequence_classification, token_classification: names of the labels 0, 1, ..., by which records "
             "may call them; "
             "exported as "
             "id2label"},
    {.section = "objective",
     .key = "max_length",
     .ref = +[](Config& c) { return &c.objective.max_length; },
     .help =
         "Objectives of pairs and answers: a longer sequence loses its end; auto: as many tokens as fit in "
         "train.sequence_length, twice if a document has two sequences",
     .unit = "tokens",
     .range = {0, 16 << 20},
     .automatic = 0},
    {.section = "objective",
     .key = "reference",
     .ref = +[](Config& c) { return &c.objective.reference; },
     .help =
         "dpo, kto, and grpo with beta: directory of the reference model, whose log-probabilities are made "
         "before training; default: the model that training starts from"},
    {.section = "objective",
     .key = "beta",
     .ref = +[](Config& c) { return &c.objective.beta; },
     .help =
         "dpo, orpo, cpo, simpo, kto: the reward of a log-probability, auto: 0.1. grpo, rloo: weight of the "
         "divergence from the reference model, auto: 0. distill: 0, KL(teacher, model), to 1, KL(model, "
         "teacher); "
         "between, Jensen-Shannon; auto: 0",
     .range = {0, 1e6},
     .automatic = beta_by_objective},
    {.section = "objective",
     .key = "loss_type",
     .ref = +[](Config& c) { return &c.objective.loss_type; },
     .help =
         "dpo, cpo: losses of a pair, whose weighted sum is trained; dpo also takes sft, the cross-entropy "
         "of the chosen completions. Empty: sigmoid. kto: kto or apo_zero_unpaired. grpo: dapo (default), "
         "grpo, "
         "bnpo, dr_grpo, cispo, luspo or sapo. docs/objectives.md says what they are"},
    {.section = "objective",
     .key = "loss_weights",
     .ref = +[](Config& c) { return &c.objective.loss_weights; },
     .help = "dpo: weights of loss_type's losses; empty: all 1",
     .range = {0, 1e6}},
    {.section = "objective",
     .key = "label_smoothing",
     .ref = +[](Config& c) { return &c.objective.label_smoothing; },
     .help = "dpo (robust, exo_pair), cpo, simpo: probability that chosen and rejected were swapped. "
             "next_token and "
             "classification: share of a target that is spread over all of them",
     .range = {0, 0.5, true},
     .alias = "label_smoothing_factor"},
    {.section = "objective",
     .key = "discopop_tau",
     .ref = +[](Config& c) { return &c.objective.discopop_tau; },
     .help = "dpo: temperature of discopop",
     .range = {1e-6, 1e6}},
    {.section = "objective",
     .key = "f_divergence_type",
     .ref = +[](Config& c) { return ChoiceRef{reinterpret_cast<u8*>(&c.objective.f_divergence_type)}; },
     .help =
         "dpo: divergence from the reference model that the reward belongs to. For losses that compare the "
         "two completions",
     .choices = Names(f_divergence_names)},
    {.section = "objective",
     .key = "f_alpha_divergence_coef",
     .ref = +[](Config& c) { return &c.objective.f_alpha_divergence_coef; },
     .help = "dpo with alpha_divergence: its alpha; 1: the reverse KL",
     .range = {-10, 10}},
    {.section = "objective",
     .key = "ld_alpha",
     .ref = +[](Config& c) { return &c.objective.ld_alpha; },
     .help = "dpo: weight of the tokens by which one completion is longer than the other (LD-DPO); 1: as the "
             "others",
     .range = {0, 1}},
    {.section = "objective",
     .key = "use_weighting",
     .ref = +[](Config& c) { return &c.objective.use_weighting; },
     .help = "dpo: a pair counts by how probable the model finds its completions (WPO)"},
    {.section = "objective",
     .key = "alpha",
     .ref = +[](Config& c) { return &c.objective.alpha; },
     .help = "cpo, simpo: shape of the reward, (1 - p^-alpha) / alpha of the probability p (AlphaPO); 0: its "
             "logarithm",
     .range = {-10, 10}},
    {.section = "objective",
     .key = "cpo_alpha",
     .ref = +[](Config& c) { return &c.objective.cpo_alpha; },
     .help = "cpo: weight of the cross-entropy of the chosen completions",
     .range = {0, 1e6}},
    {.section = "objective",
     .key = "simpo_gamma",
     .ref = +[](Config& c) { return &c.objective.simpo_gamma; },
     .help = "simpo, and cpo with simpo: margin between the rewards of both completions",
     .range = {0, 1e6}},
    {.section = "objective",
     .key = "center_rewards_coefficient",
     .ref = +[](Config& c) { return &c.objective.center_rewards_coefficient; },
     .help = "reward: weight of the square of a pair's sum of scores, which keeps scores around zero",
     .range = {0, 1e6}},
    {.section = "objective",
     .key = "desirable_weight",
     .ref = +[](Config& c) { return &c.objective.desirable_weight; },
     .help = "kto: weight of the desirable answers",
     .range = {0, 1e6}},
    {.section = "objective",
     .key = "undesirable_weight",
     .ref = +[](Config& c) { return &c.objective.undesirable_weight; },
     .help = "kto: weight of the undesirable answers",
     .range = {0, 1e6}},
    {.section = "objective",
     .key = "epsilon",
     .ref = +[](Config& c) { return &c.objective.epsilon; },
     .help = "grpo, rloo: how far below 1 a ratio of probabilities counts",
     .range = {0, 1}},
    {.section = "objective",
     .key = "epsilon_high",
     .ref = +[](Config& c) { return &c.objective.epsilon_high; },
     .help = "grpo, rloo: how far above 1 a ratio counts; cispo: the most that it counts; auto: epsilon",
     .range = {1e-6, 1e6},
     .automatic = 0},
    {.section = "objective",
     .key = "delta",
     .ref = +[](Config& c) { return &c.objective.delta; },
     .help = "grpo, rloo: the most that a ratio counts where the advantage is negative; auto: no limit",
     .range = {1, 1e6},
     .automatic = 0},
    {.section = "objective",
     .key = "sapo_temperature_pos",
     .ref = +[](Config& c) { return &c.objective.sapo_temperature_pos; },
     .help = "grpo with sapo: how soon a ratio away from 1 counts less, where the advantage is positive",
     .range = {1e-6, 1e6}},
    {.section = "objective",
     .key = "sapo_temperature_neg",
     .ref = +[](Config& c) { return &c.objective.sapo_temperature_neg; },
     .help = "grpo with sapo: the same where it is negative",
     .range = {1e-6, 1e6}},
    {.section = "objective",
     .key = "importance_sampling_level",
     .ref =
         +[](Config& c) { return ChoiceRef{reinterpret_cast<u8*>(&c.objective.importance_sampling_level)}; },
     .help = "grpo: each token has its ratio, or a completion has one (GSPO)",
     .choices = Names(importance_levels)},
    {.section = "objective",
     .key = "scale_rewards",
     .ref = +[](Config& c) { return ChoiceRef{reinterpret_cast<u8*>(&c.objective.scale_rewards)}; },
     .help =
         "grpo: advantages are divided by the standard deviation of their group's rewards, or not (Dr. GRPO)",
     .choices = Names(scale_rewards_names)},
    {.section = "objective",
     .key = "max_completion_length",
     .ref = +[](Config& c) { return &c.objective.max_completion_length; },
     .help = "grpo with dr_grpo: what a completion's sum is divided by",
     .unit = "tokens",
     .range = {1, 16 << 20}},
    {.section = "objective",
     .key = "use_bias_correction_kl",
     .ref = +[](Config& c) { return &c.objective.use_bias_correction_kl; },
     .help = "grpo, rloo: the divergence is weighted with the ratio"},
    {.section = "objective",
     .key = "share_prompts",
     .ref = +[](Config& c) { return &c.objective.share_prompts; },
     .help =
         "Objectives of pairs, answers and rollouts: a prompt stands once in a row for the sequences that "
         "follow it. Models with sliding windows, latent attention or recurrent layers repeat it"},
    {.section = "objective",
     .key = "logit_metrics",
     .ref = +[](Config& c) { return &c.objective.logit_metrics; },
     .help =
         "dpo, orpo, cpo, simpo, kto, grpo, rloo: also log entropy, and but for rollouts the mean logits of "
         "chosen and rejected tokens; takes one more pass over the logits"},
    {.section = "objective",
     .key = "teacher",
     .ref = +[](Config& c) { return &c.objective.teacher; },
     .help = "distill: directory of the teacher, whose distributions are made before training. Empty: JSONL "
             "lines "
             "bring them, with input_ids, teacher_topk_ids and teacher_topk_logps"},
    {.section = "objective",
     .key = "top_k",
     .ref = +[](Config& c) { return &c.objective.top_k; },
     .help = "distill: tokens of the teacher's distribution that are kept, the most probable ones",
     .unit = "tokens",
     .range = {1, top_k_most}},
    {.section = "objective",
     .key = "temperature",
     .ref = +[](Config& c) { return &c.objective.temperature; },
     .help =
         "distill: logits of teacher and model are divided by this; log-probabilities that lines bring must "
         "have been made with it",
     .range = {1e-3, 1e3}},
    {.section = "objective",
     .key = "remainder",
     .ref = +[](Config& c) { return ChoiceRef{reinterpret_cast<u8*>(&c.objective.remainder)}; },
     .help =
         "distill: the tokens that are not kept count as one, or both distributions are renormalized without "
         "them",
     .choices = Names(remainder_names)},
});

}  // namespace

std::span<const Field> objective_fields() { return objective_table; }

}  // namespace tidepool
