#include "config/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "base/check.h"
#include "config/schema.h"
#include "objectives/dpo/dpo.h"
#include "objectives/objective.h"

namespace tidepool {

namespace {

constexpr size_t data_sources_max = 256;

std::optional<u32> number(std::string_view digits) {
  u32 value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

struct Executor {
  u32 devices = 0;  // 0: not a valid executor
  std::vector<u32> gpus;
};

Executor parse_executor(std::string_view text) {
  if (text == "cpu" || text == "auto") return {.devices = 1};
  if (text == "cuda") return {.devices = 1, .gpus = {0}};
  if (text.starts_with("cpu:")) {
    const std::optional<u32> count = number(text.substr(4));
    return {.devices = count && *count <= devices_max ? *count : 0};
  }
  if (!text.starts_with("cuda:")) return {};
  Executor out;
  for (u64 at = 5; at <= text.size();) {
    const u64 end = std::min(text.find(',', at), text.size());
    const std::optional<u32> gpu = number(text.substr(at, end - at));
    if (!gpu || std::ranges::find(out.gpus, *gpu) != out.gpus.end()) return {};
    out.gpus.push_back(*gpu);
    at = end + 1;
  }
  if (out.gpus.size() <= devices_max) out.devices = static_cast<u32>(out.gpus.size());
  return out;
}

std::optional<Complaint> check_loss_scale(const TrainConfig& t) {
  if (t.growth_factor <= 1)
    return Complaint{"train", "growth_factor",
                     fmt::format("{} does not raise the scale; it must be above 1", t.growth_factor)};
  if (t.backoff_factor >= 1)
    return Complaint{"train", "backoff_factor",
                     fmt::format("{} does not lower the scale; it must be below 1", t.backoff_factor)};
  if (t.min_loss_scale > t.init_scale)
    return Complaint{"train", "min_loss_scale",
                     fmt::format("{} is above train.init_scale {}; lower min_loss_scale, or raise init_scale",
                                 t.min_loss_scale, t.init_scale)};
  return std::nullopt;
}

std::optional<Complaint> check_weights(const DataConfig& d) {
  if (d.weights.empty()) return std::nullopt;
  if (d.weights.size() != d.train.size())
    return Complaint{"data", "weights",
                     fmt::format("{} weights for {} entries of data.train; give one weight for each entry",
                                 d.weights.size(), d.train.size())};
  if (d.weights.size() > data_sources_max)
    return Complaint{
        "data", "weights",
        fmt::format("at most {} sources can be mixed; name fewer entries in data.train", data_sources_max)};
  for (const double weight : d.weights) {
    if (!(weight > 0 && weight <= 1e9))
      return Complaint{"data", "weights",
                       fmt::format("{} is not a weight; a weight must be above 0 and at most 1e9", weight)};
  }
  return std::nullopt;
}

std::optional<Complaint> check_sequence_length(const Config& c) {
  if (c.train.sequence_length <= c.model.longest_sequence()) return std::nullopt;
  const std::string_view positions = key_names(c.model.family).positions;
  const bool has_weights_by_position =
      style(c.model.family).positions == PositionKind::learned && !c.model_directory.empty();
  const std::string advice =
      has_weights_by_position
          ? fmt::format(
                "shorten the sequences: positions are learned, and {} has no weights for more positions",
                c.model_directory)
          : fmt::format("shorten the sequences or raise {}", positions);
  return Complaint{"train", "sequence_length",
                   fmt::format("{} is longer than {}; {}", c.train.sequence_length,
                               longest_sequence_text(c.model), advice)};
}

// Keys of one schedule would have no effect in another.
std::optional<Complaint> check_schedule(const TrainConfig& t) {
  if (t.lr_scheduler_type == "warmup_stable_decay") return std::nullopt;
  const TrainConfig none;
  for (const auto& [key, given] : {std::pair{"num_decay_steps", t.num_decay_steps != none.num_decay_steps},
                                   {"num_stable_steps", t.num_stable_steps != none.num_stable_steps},
                                   {"decay_type", t.decay_type != none.decay_type},
                                   {"warmup_type", t.warmup_type != none.warmup_type},
                                   {"num_cycles", t.num_cycles != none.num_cycles}})
    if (given)
      return Complaint{
          "train", key,
          fmt::format("is for lr_scheduler_type warmup_stable_decay, but this run has {}; leave it "
                      "out, or set train.lr_scheduler_type=warmup_stable_decay",
                      t.lr_scheduler_type)};
  return std::nullopt;
}

std::optional<Complaint> check_groups(const Config& c) {
  const u32 count = c.model.experts.count, group = c.memory.experts_per_group;
  if (count == 0 || group <= count) return std::nullopt;
  return Complaint{
      "memory", "experts_per_group",
      fmt::format("{} is more than the {} experts of a layer; set at most {}, or auto", group, count, count)};
}

std::optional<Complaint> check_best_metric(const Config& c) {
  const std::string metric = evaluation_metric_name(c.train.metric_for_best_model);
  const std::vector<std::string> known =
      evaluation_metrics(objective(c.objective.type), c.objective.logit_metrics);
  if (metric == "eval_loss" || std::ranges::find(known, metric) != known.end()) return std::nullopt;
  return Complaint{
      "train", "metric_for_best_model",
      fmt::format("'{}' is not one of eval_loss, {}, the metrics of objective.type {}",
                  c.train.metric_for_best_model, fmt::join(known, ", "), name(c.objective.type))};
}

std::optional<Complaint> check_early_stopping(const Config& c) {
  if (c.train.early_stopping_patience == 0) return std::nullopt;
  const auto wrong = [&](std::string_view advice) {
    return Complaint{"train", "early_stopping_patience",
                     fmt::format("{} counts evaluations; {}", c.train.early_stopping_patience, advice)};
  };
  if (c.train.eval_steps == 0) return wrong("set train.eval_steps too");
  if (c.data.validation.empty() && c.data.validation_fraction == 0)
    return wrong("no data is held out for evaluation: set data.validation");
  return std::nullopt;
}

Complaint wrong_objective(std::string_view key, std::string reason) {
  return Complaint{"objective", key, std::move(reason)};
}

std::optional<Complaint> check_score_head(const Config& c, const Objective& of) {
  const ScoreHead& score = c.model.score;
  const std::string_view type = name(c.objective.type);
  if (!of.scores) {
    if (!score.on()) return std::nullopt;
    return wrong_objective(
        "type",
        fmt::format("{} needs no labels, but there are labels, of the config or of the model directory; "
                    "set objective.type=sequence_classification, or name a model that predicts tokens",
                    type));
  }
  if (!of.labelled()) {
    if (score.labels == 1) return std::nullopt;
    return wrong_objective("num_labels",
                           fmt::format("a model of type {} gives one score; leave labels out", type));
  }
  if (score.labels < 2)
    return wrong_objective("num_labels",
                           "a classifier has 2 labels or more; set objective.num_labels, or name them in "
                           "objective.labels");
  if (!score.names.empty() && score.names.size() != score.labels)
    return wrong_objective("labels", fmt::format("{} names for {} labels; name each, or leave the names out",
                                                 score.names.size(), score.labels));
  for (auto name = score.names.begin(); name != score.names.end(); ++name)
    if (std::find(score.names.begin(), name, *name) != name)
      return wrong_objective("labels",
                             fmt::format("'{}' names two labels; give each label a name of its own", *name));
  if (score.labels > c.model.vocab_size)
    return wrong_objective("num_labels",
                           fmt::format("{} is more than the {} tokens of the vocabulary; use fewer labels",
                                       score.labels, c.model.vocab_size));
  return std::nullopt;
}

// Keys that say something of a head or of documents have complaints of their own.
std::optional<Complaint> check_keys_are_read(const Config& c, const Objective& of) {
  constexpr auto others =
      std::to_array<std::string_view>({"type", "num_labels", "labels", "reference", "teacher", "max_length"});
  const Config none;
  for (const Field& field : objective_fields()) {
    if (std::ranges::find(others, field.key) != others.end()) continue;
    if (std::ranges::find(of.keys, field.key) != of.keys.end()) continue;
    if (value_yaml(field, c) != value_yaml(field, none))
      return wrong_objective(field.key,
                             fmt::format("{} does not read it; leave the key out", name(c.objective.type)));
  }
  return std::nullopt;
}

std::optional<Complaint> check_losses(const ObjectiveConfig& o, const Objective& of) {
  const std::span<const std::string_view> known = of.losses;
  for (const std::string& loss : o.loss_type)
    if (std::ranges::find(known, loss) == known.end())
      return wrong_objective(
          "loss_type", known.empty()
                           ? fmt::format("objective.type {} has one loss; leave the key out", name(o.type))
                           : fmt::format("'{}' is not one of {}, the losses of objective.type {}", loss,
                                         fmt::join(known, ", "), name(o.type)));
  const size_t most = of.adds_losses ? pair_losses_max : 1;
  const auto of_pairs =
      std::ranges::count_if(o.loss_type, [](const auto& l) { return l != chosen_nll_name; });
  if (static_cast<size_t>(of_pairs) > most)
    return wrong_objective("loss_type",
                           fmt::format("{} losses are more than {}; leave some out", of_pairs, most));
  if (of.adds_losses && !o.loss_weights.empty() && o.loss_weights.size() != o.loss_type.size())
    return wrong_objective("loss_weights", fmt::format("{} weights for {} losses; give each loss a weight",
                                                       o.loss_weights.size(), o.loss_type.size()));
  if (std::ranges::find(o.loss_weights, 0.0) != o.loss_weights.end())
    return wrong_objective("loss_weights", "a loss with weight 0 is not trained; leave it out of loss_type");
  const bool exo = std::ranges::find(o.loss_type, "exo_pair") != o.loss_type.end();
  if (exo && o.label_smoothing == 0)
    return wrong_objective("label_smoothing", "exo_pair needs one above 0; set 1e-3, as its authors do");
  return std::nullopt;
}

std::optional<Complaint> check_dpo(const ObjectiveConfig& o) {
  if (o.type != ObjectiveType::dpo) return std::nullopt;
  const bool compares = o.f_divergence_type != FDivergence::reverse_kl;
  for (const std::string& loss : o.loss_type) {
    if (compares && std::ranges::find(comparing_dpo_losses, loss) == comparing_dpo_losses.end())
      return wrong_objective("f_divergence_type",
                             fmt::format("{} is for losses that compare the two completions, {}, and not for "
                                         "{}; leave the key out",
                                         f_divergence_names[static_cast<u32>(o.f_divergence_type)],
                                         fmt::join(comparing_dpo_losses, ", "), loss));
    if (o.use_weighting && loss == chosen_nll_name)
      return wrong_objective("use_weighting", "weighs pairs, and sft is a mean over tokens; leave one out");
  }
  return std::nullopt;
}

std::optional<Complaint> check_distillation(const Config& c) {
  const ObjectiveConfig& o = c.objective;
  if (!objective_rule(o).divergence.on()) {
    if (o.teacher.empty()) return std::nullopt;
    return wrong_objective("teacher", fmt::format("{} has no teacher; leave the key out, or set "
                                                  "objective.type=distill",
                                                  name(o.type)));
  }
  if (objective_rule(o).divergence.beta > 1)
    return wrong_objective("beta", "distill mixes both divergences; set it from 0 to 1");
  if (o.top_k > c.model.vocab_size)
    return wrong_objective("top_k", fmt::format("{} is more than the {} tokens of the vocabulary; lower it",
                                                o.top_k, c.model.vocab_size));
  if (o.teacher.empty() && c.data.records != "auto")
    return Complaint{
        "data", "records",
        fmt::format("{} is not what distill takes without objective.teacher, lines with a teacher's "
                    "distributions; leave the key out",
                    c.data.records)};
  return std::nullopt;
}

std::optional<Complaint> check_objective(const Config& c) {
  const Objective& of = objective(c.objective.type);
  if (std::optional<Complaint> complaint = check_score_head(c, of)) return complaint;
  if (std::optional<Complaint> complaint = check_losses(c.objective, of)) return complaint;
  if (std::optional<Complaint> complaint = check_keys_are_read(c, of)) return complaint;
  if (std::optional<Complaint> complaint = check_dpo(c.objective)) return complaint;
  if (std::optional<Complaint> complaint = check_distillation(c)) return complaint;
  if (of.documents == Documents::token_labels && c.model.family == Family::gpt2)
    return wrong_objective("type", "token_classification is not for gpt2 models; take another family");
  if (c.objective.beta == 0 && !of.beta_may_be_zero)
    return wrong_objective("beta", fmt::format("0 trains nothing with {}; set 0.1", name(c.objective.type)));
  if (of.units() && !can_pack(c.model.family))
    return wrong_objective(
        "type", fmt::format("{} packs sequences into rows, and models of type {} have positions for "
                            "whole rows; take another family",
                            name(c.objective.type), name(c.model.family)));
  if (of.units() && c.data.loss != "answers")
    return Complaint{
        "data", "loss",
        fmt::format("{} is not for objective.type {}, which learns answers whole; leave the key out",
                    c.data.loss, name(c.objective.type))};
  if (c.objective.type == ObjectiveType::kto && c.objective.desirable_weight == 0 &&
      c.objective.undesirable_weight == 0)
    return wrong_objective("desirable_weight", "with both weights 0 nothing is trained; raise one");
  if (objective_rule(c.objective).rollout.loss == RolloutLoss::cispo && c.objective.epsilon_high == 0)
    return wrong_objective(
        "epsilon_high",
        "cispo counts a ratio of at most this, and most ratios are near 1; set it, for example "
        "5");
  if (!of.units() && c.objective.max_length != 0)
    return wrong_objective("max_length", fmt::format("is for pairs and answers, and {} has none; set "
                                                     "train.sequence_length",
                                                     name(c.objective.type)));
  const ObjectiveRule rule = objective_rule(c.objective);
  const bool compares = rule.reference;
  if (compares && c.objective.reference.empty())
    return wrong_objective("reference",
                           fmt::format("{} compares with a reference model; name its directory, or a "
                                       "model directory to start from",
                                       name(c.objective.type)));
  if (!may_compare(rule) && !c.objective.reference.empty())
    return wrong_objective(
        "reference", fmt::format("{} has no reference model; leave the key out", name(c.objective.type)));
  if (compares && !c.lora.adapter.empty() && c.objective.reference == c.model_directory)
    return wrong_objective("reference",
                           fmt::format("the model without {} would be the reference; merge the adapter "
                                       "with  tidepool export  and start from that",
                                       c.lora.adapter));
  if (of.units() && c.train.sequence_length < 4)
    return Complaint{
        "train", "sequence_length",
        fmt::format("{} is too short; a row holds prompts and answers whole", c.train.sequence_length)};
  if (!of.takes.empty() && c.data.records != "auto")
    return Complaint{"data", "records",
                     fmt::format("{} is not what objective.type {} takes, lines with {}; leave the key out",
                                 c.data.records, name(c.objective.type), of.takes)};
  return std::nullopt;
}

std::optional<Complaint> check_report_to(const OutputConfig& o) {
  for (const std::string& name : o.report_to) {
    if (name == "none" && o.report_to.size() == 1) continue;
    if (name == "none")
      return Complaint{"output", "report_to", "none stands alone; leave it out, or the others"};
    if (std::ranges::find(report_to_names, name) == report_to_names.end())
      return Complaint{"output", "report_to",
                       fmt::format("'{}' is not one of {}, none; metrics.jsonl is always written", name,
                                   fmt::join(report_to_names, ", "))};
  }
  return std::nullopt;
}

}  // namespace

u32 MachineConfig::devices() const {
  const u32 count = parse_executor(executor).devices;
  CHECK(count > 0, executor);
  return count;
}

std::vector<u32> MachineConfig::gpus() const { return parse_executor(executor).gpus; }

std::optional<Complaint> validate(const Config& c) {
  if (parse_executor(c.machine.executor).devices == 0) {
    return Complaint{
        "machine", "executor",
        fmt::format(
            "'{}' is not auto, cpu, cpu:N with N from 1 to {}, cuda, or cuda:I,J,... with the numbers "
            "of GPUs",
            c.machine.executor, devices_max)};
  }
  if (std::optional<ModelFault> fault = check_model(c.model))
    return Complaint{"model", fault->key, std::move(fault->reason)};
  if (const std::optional<Complaint> complaint = check_sequence_length(c)) return complaint;
  if (const std::optional<Complaint> complaint = check_groups(c)) return complaint;
  if (std::optional<Complaint> complaint = check_objective(c)) return complaint;
  if (c.train.warmup_steps >= 1 &&
      c.train.warmup_steps != static_cast<double>(static_cast<u64>(c.train.warmup_steps))) {
    return Complaint{
        "train", "warmup_steps",
        fmt::format("{} is neither a whole number of steps nor a share below 1", c.train.warmup_steps)};
  }
  if (c.train.max_steps == steps_by_epochs && c.train.num_train_epochs == 0)
    return Complaint{"train", "max_steps",
                     "auto needs train.num_train_epochs, which is not set: set num_train_epochs, or give a "
                     "number of steps"};
  if (const std::optional<Complaint> complaint = check_schedule(c.train)) return complaint;
  if (const std::optional<Complaint> complaint = check_weights(c.data)) return complaint;
  if (const std::optional<Complaint> complaint = check_best_metric(c)) return complaint;
  if (const std::optional<Complaint> complaint = check_early_stopping(c)) return complaint;
  if (const std::optional<Complaint> complaint = check_report_to(c.output)) return complaint;
  if (c.train.precision == Precision::fp16) {
    if (const std::optional<Complaint> complaint = check_loss_scale(c.train)) return complaint;
  }
  const u64 tokens = u64{c.train.per_device_train_batch_size} * c.train.sequence_length;
  if (tokens > 0x7fff'ffff) {
    return Complaint{"train", "per_device_train_batch_size",
                     fmt::format("{} sequences of {} tokens are more than 2^31 tokens in one micro-batch; "
                                 "raise gradient_accumulation_steps instead",
                                 c.train.per_device_train_batch_size, c.train.sequence_length)};
  }
  return std::nullopt;
}

}  // namespace tidepool
