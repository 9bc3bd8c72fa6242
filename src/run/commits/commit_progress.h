// CommitProgress supplies what a commit of the state keeps beside the chunks: the trainer's progress after
// the step. A step's part of it is a few numbers, taken without an allocation; the rest changes only at rest.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/trainer_state.h"
#include "durability/run_durability.h"
#include "executor/shared/executor_common.h"
#include "run/commits/branch_file.h"

namespace tidepool {

class CommitProgress final : public CommitSource {
 public:
  // Numbers of a step, all that a commit has of it beside the losses.
  struct Numbers {
    u64 step = 0, tokens = 0;
    double seconds = 0;
    StoredLossScale loss_scale;
  };

  // REQUIRES: `durability` outlives this object.
  explicit CommitProgress(RunDurability& durability) : durability_(durability) {}
  // Room for the losses of `steps` steps, or the most that a commit keeps, and for a text with so many
  // evaluations.
  static u64 bytes_max(u64 steps, u64 evaluations);
  // `bytes_max`: of a commit's payload. If not all losses fit, the latest are kept.
  void begin(u64 bytes_max) { payload_.reserve(bytes_max_ = bytes_max); }

  // The state changes at rest: after evaluations and saves. `losses` of `state` are not used.
  void rested(const TrainerState& state);
  // True if it has changed since a commit got it.
  bool has_news() const { return has_news_; }
  // `state`: after the step, with the losses of all steps so far. It outlives the commit.
  void step_done(const TrainerState& state, u64 step, double seconds);

  // Tells the run directory of each commit that begins. REQUIRES: the file outlives this object.
  void remember_in(BranchFile& file) { file_ = &file; }

  // REQUIRES: the step is the last that is done, or one of the three before it.
  const Numbers& numbers(u64 step) const { return numbers_[step % steps_held]; }

  // Begins the commit of the step. RETURNS: nullopt if the step may not be committed now (may_commit()), or
  // the text has outgrown its room.
  std::optional<std::span<const std::byte>> payload(u64 step) override;

 private:
  static constexpr u64 steps_held = 4;  // the step that is committed is the last, or the one before it

  RunDurability& durability_;
  u64 bytes_max_ = 0;
  bool has_news_ = false;
  std::string text_;  // TrainerState without losses
  const std::vector<double>* losses_ = nullptr;
  BranchFile* file_ = nullptr;
  std::array<Numbers, steps_held> numbers_{};
  std::vector<std::byte> payload_;
};

// RETURNS: the state that the payload of a commit describes.
// Errors: bad_input, naming `path`.
Result<TrainerState> progress_of_commit(std::string_view payload, const std::string& path);

}  // namespace tidepool
