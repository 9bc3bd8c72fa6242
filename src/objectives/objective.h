// Objective is the training objective: the head that it needs, the documents that it takes, and the figure
// of an evaluation beside its loss. Each has a folder here and a row in
// objectives.cpp.
#pragma once

#include <string>
#include <string_view>

#include "tidepool/objective.h"

namespace tidepool {

struct EvaluationFigure {
  std::string_view metric;  // its name in logs
  std::string_view word;    // for people
  double (*of)(const Sums&, double targets) = nullptr;
  std::string (*text)(double) = nullptr;
  bool of_loss = false;  // follows from the mean loss, so no file need keep it
};

struct Objective {
  // True: a document is a text with a label, its last token predicts the label, and the model has a score
  // head. False: tokens predict the tokens behind them.
  bool labelled = false;
  std::string_view targets;  // word for what has a loss: "tokens"
  EvaluationFigure figure;
};

const Objective& objective(ObjectiveType);

}  // namespace tidepool
