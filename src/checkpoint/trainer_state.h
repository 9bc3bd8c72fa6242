// trainer_state.json: where a run stands, apart from its tensors. Floating-point values that a resumed
// run continues from are hexadecimal text ("0x1.8p+1", as float.fromhex reads it): exact in any parser.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace tidepool {

inline constexpr const char* trainer_state_file = "trainer_state.json";

struct EvalLoss {
  u64 step = 0;
  double loss = 0;
  u64 tokens = 0;  // that had loss; 0: an older file, which does not say
  bool operator==(const EvalLoss&) const = default;
};
// The last ones, back to where an evaluation was over another number of tokens: losses over other tokens do
// not compare. What is not said counts as the same.
std::span<const EvalLoss> comparable_evaluations(std::span<const EvalLoss>);
// Of the comparable ones the first of those with the lowest loss; null: there is none. Any number is below
// one that is none.
const EvalLoss* best_evaluation(std::span<const EvalLoss>);

// fp16: how the next step's loss is scaled, and how many steps have changed no weight.
struct StoredLossScale {
  double scale = 1;
  u64 good_steps = 0;  // without overflow since the scale last changed
  u64 skipped_steps = 0;
  bool operator==(const StoredLossScale&) const = default;
};

struct TrainerState {
  u64 step = 0;  // optimizer steps done; the next is step + 1
  u64 seed = 0;
  std::string data_fingerprint;  // of the tokens: another value means other data
  std::string base_fingerprint;  // of the model that adapters stand beside; empty: none, or not said
  std::string base_xxh3;         // of all its weights, as TensorHashes has it; empty: as above
  std::vector<double> losses;    // of steps 1 .. step
  std::vector<EvalLoss> eval_losses;
  u64 tokens = 0;      // trained on so far
  double seconds = 0;  // training time so far, earlier runs included
  u64 best_step = 0;   // of the first checkpoint at or after the best evaluation; 0: no evaluation yet
  std::optional<StoredLossScale> loss_scale;  // fp16 only
  // Settings that the numbers depend on, as in config.yaml: {"train.learning_rate": "0.001"}. Of
  // machine.executor, "cpu" or "cuda".
  std::map<std::string, std::string> settings;

  bool operator==(const TrainerState&) const = default;
};

std::string to_text(const TrainerState&);
// Errors are ErrorKind::corrupt_checkpoint and name `file_name` and the key.
Result<TrainerState> parse_trainer_state(std::string_view text, std::string_view file_name);
// Of a checkpoint.
Result<TrainerState> read_trainer_state(const std::string& directory);

// "train.learning_rate: 0.001 then, 0.002 now", one for each setting that differs.
std::vector<std::string> changed_settings(const TrainerState& then,
                                          const std::map<std::string, std::string>& now);

}  // namespace tidepool
