// Objective is the training objective: the head that it needs, the documents that it takes, its loss, and its
// figures beside the loss. Each has a folder here and a row in
// objectives.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tidepool/model_config.h"
#include "tidepool/objective.h"

namespace tidepool {

// The figure of an evaluation that people are told beside its loss.
struct EvaluationFigure {
  std::string_view metric;  // its name in logs
  std::string_view word;    // for people
  double (*of)(const Sums&, double targets) = nullptr;
  std::string (*text)(double) = nullptr;
  bool of_loss = false;  // follows from the mean loss, so no file need keep it
};

// A figure of every step, and with "eval_" before its name of every evaluation.
struct ObjectiveMetric {
  std::string_view name;
  double (*of)(const Sums&, double targets) = nullptr;
  bool of_logits = false;  // there if the rule sums logits
};

// RETURNS: none if there was nothing to take its mean over.
std::optional<double> value_of(const ObjectiveMetric&, const Sums&, double targets);

struct Objective {
  Documents documents = Documents::any;
  bool scores = false;       // the model has a score head
  std::string_view targets;  // word for what has a loss: "tokens"
  std::string_view takes;    // its records, for messages; empty: any
  EvaluationFigure figure;
  std::span<const ObjectiveMetric> metrics = {};
  std::span<const std::string_view> losses = {};  // that objective.loss_type may name
  bool adds_losses = false;                       // loss_type may name several, whose weighted sum is trained
  std::span<const std::string_view> keys = {};    // of section `objective` that it reads, beside common ones
  double beta = 0.1;                              // if objective.beta is auto
  bool beta_may_be_zero = false;
  // Null: the cross-entropy of each target, smoothed if the config says so.
  ObjectiveRule (*rule)(const ObjectiveConfig&) = nullptr;

  bool labelled() const { return documents == Documents::labelled || documents == Documents::token_labels; }
  bool units() const { return documents != Documents::any && !labelled(); }
};

// The names of an evaluation's metrics beside eval_loss.
std::vector<std::string> evaluation_metrics(const Objective&, bool logit_metrics);
// RETURNS: a metric's name with the prefix that Hugging Face's trainer lets people leave out.
std::string evaluation_metric_name(std::string_view);
// RETURNS: the value of one of them; NaN if there was nothing to take its mean over.
double evaluation_metric(const Objective&, std::string_view name, const Sums&, double targets);

const Objective& objective(ObjectiveType);
ObjectiveRule objective_rule(const ObjectiveConfig&);

// `row_places`: length of the rows that documents lie in.
UnitSettings unit_settings(const ObjectiveConfig&, const ModelConfig&, u32 row_places);
// RETURNS: true if sequences of the model may share a prompt in such rows: all layers attend to everything
// before a token.
bool can_share_prompts(const ModelConfig&, u32 row_places);
// True if log-probabilities of a reference model are needed, or may be: of rollouts whose data has none.
bool may_compare(const ObjectiveRule&);

}  // namespace tidepool
