// TrainerState is the progress of a run without its tensors, stored in trainer_state.json. Floating-point
// values that a resumed run continues from are hexadecimal text ("0x1.8p+1", as float.fromhex reads it),
// which every parser reads exactly.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "checkpoint/origin.h"

namespace tidepool {

inline constexpr const char* trainer_state_file = "trainer_state.json";

struct EvalLoss {
  u64 step = 0;
  double loss = 0;
  u64 tokens = 0;     // tokens with loss; 0: unknown, from an older file
  double figure = 0;  // TrainerState::eval_figure
  // The metric by which evaluations are compared, if not less loss, and its value.
  std::string ranked_by = {};
  double value = 0;
  bool greater_is_better = false;

  double rank() const {
    return ranked_by.empty() ? loss : greater_is_better ? -value : value;
  }  // lower is better
  bool same_ranking(const EvalLoss& e) const {
    return ranked_by == e.ranked_by && greater_is_better == e.greater_is_better;
  }
  bool operator==(const EvalLoss&) const = default;
};
// The latest evaluations over the same number of tokens, ranked by the same metric: others are not
// comparable. An unknown number counts as the same.
std::span<const EvalLoss> comparable_evaluations(std::span<const EvalLoss>);
// Among the comparable evaluations, the first with the lowest rank; null if there is none. Every number is
// lower than NaN.
const EvalLoss* best_evaluation(std::span<const EvalLoss>);

// fp16 only: scale of the next step's loss, and the number of steps that changed no weight.
struct StoredLossScale {
  double scale = 1;
  u64 good_steps = 0;  // steps without overflow since the last change of scale
  u64 skipped_steps = 0;
  bool operator==(const StoredLossScale&) const = default;
};

struct TrainerState {
  u64 step = 0;  // finished optimizer steps; the next is step + 1
  u64 seed = 0;
  std::string data_fingerprint;       // of the data; another value means other data
  std::string base_fingerprint;       // of the adapters' base model; empty: no base model, or unknown
  std::string base_xxh3;              // TensorHashes of the base model's weights; empty: as above
  std::optional<Origin> origin = {};  // of weights that are trained whole; the manifest has it too
  std::vector<double> losses;         // of steps 1 .. step
  std::vector<EvalLoss> eval_losses;
  std::string eval_figure;  // name of another figure of evaluations; empty: perplexity, which the loss gives
  u64 tokens = 0;           // trained tokens so far
  double seconds = 0;       // training time so far, including earlier runs
  u64 best_step = 0;        // first checkpoint at or after the best evaluation; 0: no evaluation yet
  std::optional<StoredLossScale> loss_scale;  // fp16 only
  // Settings that affect the numbers, as in config.yaml: {"train.learning_rate": "0.001"}. For
  // machine.executor only "cpu" or "cuda".
  std::map<std::string, std::string> settings;
  // Optimizers of the trained tensors, in the model's order, as runs: "24 muon, 5 adamw_torch". Formats of a
  // rule count as that rule. Empty: from an older file, or all are adamw_torch.
  std::string optimizers;

  bool operator==(const TrainerState&) const = default;
};

std::string to_text(const TrainerState&);
// Error: corrupt_checkpoint, naming `file_name` and the key.
Result<TrainerState> parse_trainer_state(std::string_view text, std::string_view file_name);
// Reads trainer_state.json of a checkpoint.
Result<TrainerState> read_trainer_state(const std::string& directory);

// One message for each setting that differs: "train.learning_rate: 0.001 then, 0.002 now".
std::vector<std::string> changed_settings(const TrainerState& then,
                                          const std::map<std::string, std::string>& now);

}  // namespace tidepool
