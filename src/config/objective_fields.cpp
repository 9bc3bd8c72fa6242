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
         "Default: as the model directory says",
     .choices = Names(objective_names)},
    {.section = "objective",
     .key = "num_labels",
     .ref = +[](Config& c) { return &c.model.score.labels; },
     .help = "sequence_classification: number of labels; auto: of `labels`, or as the model directory says",
     .range = {0, 1e6},
     .automatic = 0},
    {.section = "objective",
     .key = "labels",
     .ref = +[](Config& c) { return &c.model.score.names; },
     .help = "sequence_classification: names of the labels 0, 1, ..., by which records may call them; "
             "exported as "
             "id2label"},
    {.section = "objective",
     .key = "max_length",
     .ref = +[](Config& c) { return &c.objective.max_length; },
     .help = "Objectives of pairs: a longer sequence loses its end; auto: as many tokens as fit twice in "
             "train.sequence_length",
     .unit = "tokens",
     .range = {0, 16 << 20},
     .automatic = 0},
    {.section = "objective",
     .key = "reference",
     .ref = +[](Config& c) { return &c.objective.reference; },
     .help =
         "dpo: directory of the reference model, whose log-probabilities are made before training; default: "
         "the model that training starts from"},
    {.section = "objective",
     .key = "beta",
     .ref = +[](Config& c) { return &c.objective.beta; },
     .help = "dpo, orpo, cpo, simpo: the reward of a log-probability",
     .range = {1e-6, 1e6}},
    {.section = "objective",
     .key = "loss_type",
     .ref = +[](Config& c) { return &c.objective.loss_type; },
     .help =
         "dpo, cpo: losses of a pair, whose weighted sum is trained; dpo also takes sft, the cross-entropy "
         "of the chosen completions. Empty: sigmoid. docs/objectives.md has their names"},
    {.section = "objective",
     .key = "loss_weights",
     .ref = +[](Config& c) { return &c.objective.loss_weights; },
     .help = "dpo: weights of loss_type's losses; empty: all 1",
     .range = {0, 1e6}},
    {.section = "objective",
     .key = "label_smoothing",
     .ref = +[](Config& c) { return &c.objective.label_smoothing; },
     .help = "dpo (robust, exo_pair), cpo, simpo: probability that chosen and rejected were swapped",
     .range = {0, 0.5, true}},
    {.section = "objective",
     .key = "discopop_tau",
     .ref = +[](Config& c) { return &c.objective.discopop_tau; },
     .help = "dpo: temperature of discopop",
     .range = {1e-6, 1e6}},
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
});

}  // namespace

std::span<const Field> objective_fields() { return objective_table; }

}  // namespace tidepool
