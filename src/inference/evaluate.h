// evaluate_model() computes the loss of a model, and the figure of its objective, on held-out data, outside
// of training.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "executor/shared/step_source.h"
#include "objectives/objective.h"
#include "tidepool/chunk.h"

namespace tidepool {

struct EvaluateRequest {
  // A run directory (its newest checkpoint with undamaged weights), a checkpoint, a Hugging Face model
  // directory, or a config. A config stands for the run in its output.dir, or, before there is a run, for the
  // model directory that it names.
  std::string source;
  // Overrides of the run's config. Defaults here: train.eval_batches is 0, which means all; train.precision
  // of a model directory is the type of its weights.
  std::vector<std::string> overrides;
  std::vector<std::string> data;  // replaces data.validation; empty: the config's held-out data
  bool quiet = false;
  std::function<void(const std::string&)> note = [](const std::string&) {};  // lines for people
  std::function<void(u64 done, u64 sequences)> progress = [](u64, u64) {};
};

struct EvaluatedPart {
  std::string name;  // a file or a source; empty: all held-out data is one part
  u64 sequences = 0;
  EvalResult result;
  double loss() const { return result.loss(); }
  double figure(const Objective& o) const {
    return o.figure.of(result.sums, static_cast<double>(result.targets));
  }
};

struct Evaluation {
  std::string weights;  // directory of the weights
  Precision precision{};
  ObjectiveType objective{};
  EvaluatedPart all;
  std::vector<EvaluatedPart> parts;  // only parts with a target
  double seconds = 0;                // computing time
};

// Averages over tokens: every token with loss counts once and equally, in any sequence, batch or file.
// Verifies the weights first if they have hashes.
// ErrorKind::usage if `source` is none of the above, or nothing is held out; and errors of the config, the
// weights, the data and the plan.
Result<Evaluation> evaluate_model(const EvaluateRequest&);

// ErrorKind::non_finite if the loss of a part is not finite.
Result<void> check_losses_are_finite(const Evaluation&);

}  // namespace tidepool
