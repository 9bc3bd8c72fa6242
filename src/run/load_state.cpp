#include "run/load_state.h"

#include <fmt/format.h>

#include "huggingface/weights/weights_fingerprint.h"
#include "objectives/objective.h"
#include "run/nodes.h"
#include "run/other_sequences.h"
#include "run/resume_notes.h"
#include "run/weights/base_model.h"
#include "run/weights/first_weights.h"

namespace tidepool {
namespace {

void set_loss_scale(PreparedRun& run) {
  if (const auto& stored = run.state.loss_scale)
    run.session->results().set_loss_scale({.scale = static_cast<float>(stored->scale),
                                           .good_steps = static_cast<u32>(stored->good_steps),
                                           .skipped_steps = stored->skipped_steps});
}

void begin_durability(PreparedRun& run) {
  const bool is_saved = !run.checkpoints->last().path.empty();
  const u64 step = run.state.step;
  run.durability.begin(durability_at(run.policy(), step, is_saved ? std::optional(step) : std::nullopt));
}

Result<void> load_frozen(PreparedRun& run) {
  TRY_ASSIGN(const std::string xxh3, load_frozen_model(*run.session, run.outputs));
  TRY(same_base_weights(run.config().model_directory, run.state.base_xxh3, xxh3));
  run.state.base_xxh3 = xxh3;
  return {};
}

// Makes the stored progress that of this run, and loads what is not part of its state.
Result<void> take_progress(PreparedRun& run, const EarlierPart& part) {
  const TrainerState& stored = part.state;
  if (stored.data_fingerprint != run.state.data_fingerprint)
    return other_sequences(part, run.state.data_fingerprint, run.config());
  if (run.job.graph.lora.on()) TRY(check_base_model(run.config().model_directory, part.name));
  TRY(check_model_is_unchanged(run.config()));
  if (stored.loss_scale.has_value() != run.is_fp16())
    return Error{ErrorKind::corrupt_checkpoint,
                 fmt::format("{}: its progress {} a loss_scale, but train.precision is {}: resume in the "
                             "precision that it was made in",
                             part.name, run.is_fp16() ? "lacks" : "has", name(run.config().train.precision))};
  TRY(check_labels_are_the_same(stored, settings_now(run)));
  for (const std::string& note : resume_notes(stored, run.config(), settings_now(run))) run.outputs.say(note);
  const u64 seed = run.state.seed;
  run.state = stored;
  run.state.seed = seed;
  return run.job.graph.lora.on() ? load_frozen(run) : Result<void>();
}

// RETURNS: the checkpoint to try next, or nullopt if `found` was restored.
Result<std::optional<FoundCheckpoint>> restore(PreparedRun& run, FoundCheckpoint found) {
  TRY(take_progress(run, {found.path, run_of_checkpoint(found.path), found.state}));
  return run.checkpoints->resume_from(std::move(found), run.session->state());
}

// From now on the session's file counts.
Result<void> take_over_commit(PreparedRun& run, const ResumePoint& point) {
  if (run.session->plan().versions < 2) return {};
  run.commits.progress().rested(run.state);
  run.commits.progress().step_done(run.state, run.state.step, run.state.seconds);
  if (point.mode() == SessionCommits::Mode::copy) {
    TRY_ASSIGN(const bool committed, run.commits.commit_again(run.state.step));
    if (!committed)
      return Error{ErrorKind::usage,
                   "the run has more evaluations than a commit can hold: set memory.versions=1"};
    return run.session->replace_commit();
  }
  run.commits.taken_over(run.state.step);
  return {};
}

Result<void> resume_from_commit(PreparedRun& run, const ResumePoint& point) {
  const CommittedRun& committed = *point.commit();
  TRY(take_progress(
      run, {"the state committed in " + committed.found.path, run.config().output.dir, committed.state}));
  begin_durability(run);
  TRY(restore_committed_state(committed, point.mode(), *run.session, run.outputs));
  TRY(run.checkpoints->resumed_from_commit(run.state.best_step, point.end_of_branch()));
  return take_over_commit(run, point);
}

Result<void> load_all(PreparedRun& run, const ResumePoint& point, std::optional<FoundCheckpoint> found) {
  if (point.is_commit()) return resume_from_commit(run, point);
  if (!found) TRY(make_first_weights(*run.session, run.outputs, run.state));
  const TrainerState fresh = run.state;
  while (found) {  // falls back to older checkpoints while the newest is damaged
    run.state = fresh;
    TRY_ASSIGN(found, restore(run, std::move(*found)));
  }
  if (run.job.graph.lora.on() && run.state.base_fingerprint.empty()) {
    TRY_ASSIGN(run.state.base_fingerprint, weights_fingerprint(run.config().model_directory));
  }
  return {};
}

}  // namespace

Result<void> load_state(PreparedRun& run, const ResumePoint& point, std::optional<FoundCheckpoint> found) {
  run.state.seed = run.config().train.seed;
  run.state.data_fingerprint = run.batches->fingerprint();
  if (const EvaluationFigure& figure = objective(run.config().objective.type).figure; !figure.of_loss)
    run.state.eval_figure = figure.metric;
  if (run.is_fp16()) run.state.loss_scale = StoredLossScale{.scale = run.config().train.init_scale};
  if (!run.leads()) {
    TRY(run.session->serve());
  } else {
    TRY(load_all(run, point, std::move(found)));
    TRY(run.session->end_leading());
  }
  if (run.several()) {
    TRY_ASSIGN(run.state, share_state(*run.request.transport, run.state));
  }
  set_loss_scale(run);
  if (!point.is_commit()) begin_durability(run);
  return {};
}

Result<void> load_own_commit(PreparedRun& run, const ResumePoint& point) {
  if (run.job.graph.lora.on()) TRY(load_frozen(run));
  TRY(restore_committed_state(*point.commit(), point.mode(), *run.session, run.outputs));
  TRY(take_over_commit(run, point));
  set_loss_scale(run);
  return {};
}

}  // namespace tidepool
