// Loss and perplexity of a model on held-out data, outside of a training.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "tidepool/chunk.h"

namespace tidepool {

struct EvaluateRequest {
  // A run directory (its newest checkpoint with sound weights), a checkpoint, a Hugging Face model directory,
  // or a config: of that the run in its output.dir, or, before there is one, the model directory that it
  // names.
  std::string source;
  // Of the run's config. Unless they say otherwise train.eval_batches is 0, all, and train.precision of a
  // model directory is the type that its weights have.
  std::vector<std::string> overrides;
  std::vector<std::string> data;  // in the place of data.validation; empty: what the config holds out
  bool quiet = false;
  std::function<void(const std::string&)> note = [](const std::string&) {};  // lines for people
  std::function<void(u64 done, u64 sequences)> progress = [](u64, u64) {};
};

struct EvaluatedPart {
  std::string name;  // a file, or a source; empty: all held-out data is one
  u64 sequences = 0, tokens = 0;
  double loss_sum = 0;
  double loss() const { return loss_sum / static_cast<double>(tokens); }
};

struct Evaluation {
  std::string weights;  // the directory that they are of
  Precision precision{};
  EvaluatedPart all;
  std::vector<EvaluatedPart> parts;  // none without a token that has loss
  double seconds = 0;                // of computing
};

// Every token with loss counts once and alike, whichever sequence, batch or file it is in. The weights are
// verified first where they have hashes. Errors: ErrorKind::usage where `source` is none of these or nothing
// is held out; those of the config, the weights, the data and the plan.
Result<Evaluation> evaluate_model(const EvaluateRequest&);

// ErrorKind::non_finite where the loss of a part is not finite.
Result<void> check_losses_are_finite(const Evaluation&);

}  // namespace tidepool
