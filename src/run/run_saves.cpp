#include "run/run_saves.h"

#include <utility>

#include "base/steady_seconds.h"
#include "run/outputs/signals.h"

namespace tidepool {

void RunSaves::begin() {
  moments_.begin(steady_seconds());
  run_.state.settings = settings_now(run_);
  // A run that was killed between its best evaluation and the save of it.
  const EvalLoss* best = best_evaluation(run_.state.eval_losses);
  best_unsaved_ = best != nullptr && best->step > run_.state.best_step;
  // A step that was trained before may be recorded now: if nothing is left to train, before the last save.
  run_.records.progress().rested(run_.state);
  run_.records.progress().step_done(run_.state, run_.state.step, run_.state.seconds);
}

bool RunSaves::due(u64 step) const { return moments_.due(step, steady_seconds()); }

void RunSaves::tell_signals() const {
  if (run_.checkpoints->last_step()) return StopSignals::say_instead({});
  StopSignals::say_instead({.second = run_.records.last_step() > 0
                                          ? "\ntidepool: stopped at once; the last recorded step is intact\n"
                                          : "\ntidepool: stopped at once; no step had been saved yet\n"});
}

TrainerState RunSaves::state_now(u64 step, double seconds) {
  run_.session->state().invalidate();
  TrainerState state = run_.state;
  state.step = step;
  state.seconds = seconds;
  if (best_unsaved_) state.best_step = step;
  return state;
}

void RunSaves::saved(const TrainerState& state) {
  run_.state.best_step = state.best_step;
  run_.records.progress().rested(run_.state);
  tell_signals();
}

Result<void> RunSaves::save(u64 step, double seconds) {
  if (!run_.config.output.save) return {};
  moments_.tried(steady_seconds());
  end_background();
  const TrainerState state = state_now(step, seconds);
  TRY_ASSIGN(const bool recorded, run_.records.record_at_rest(step));
  tell_signals();
  // Updates that speculate need records: without them more and more steps would be trained again.
  const bool must_record = run_.session->plan().speculates && records_wait();
  const bool background = run_.session->has_swap_file() && !must_record;
  if (recorded && background) return save_in_background(state);
  TRY_ASSIGN(const bool written, run_.checkpoints->save(state, run_.session->state()));
  if (!written) return {};
  best_unsaved_ = false;
  saved(state);
  return {};
}

// The content stays in the slots that the save reads. With two versions no step is recorded until it has
// ended.
Result<void> RunSaves::save_in_background(const TrainerState& state) {
  TRY_ASSIGN(std::unique_ptr<StateReader> reader, run_.session->read_record());
  const double share = RunRecords::share_of_saves(run_.prediction, !run_.config.machine.gpus().empty(),
                                                  checkpoint_bytes(run_.graph));
  const bool begun = run_.checkpoints->begin_save(state, std::move(reader), share);
  run_.records.progress().pause(begun && records_wait());
  background_has_best_ = begun && best_unsaved_;
  if (begun) best_unsaved_ = false;
  return {};
}

void RunSaves::end_if_done() {
  if (run_.checkpoints->background_is_done()) end_background();
}

void RunSaves::end_background() {
  if (!run_.checkpoints->saves_in_background()) return;
  if (const std::optional<TrainerState> state = run_.checkpoints->end_save())
    saved(*state);
  else
    best_unsaved_ |= background_has_best_;
  run_.records.progress().pause(false);
}

Result<void> RunSaves::save_last(u64 step, double seconds) {
  if (!run_.config.output.save) return {};
  end_background();
  const TrainerState state = state_now(step, seconds);
  // Nothing is lost then if the save fails. A record that fails is no reason not to save.
  if (const Result<bool> recorded = run_.records.record_at_rest(step); recorded && *recorded)
    run_.checkpoints->set_recorded_way(run_.records.way_on(std::nullopt, ""));
  TRY(run_.checkpoints->save_last(state, run_.session->state()));
  best_unsaved_ = false;
  saved(state);
  return {};
}

Result<bool> RunSaves::record(u64 step) {
  if (records_wait()) end_background();
  return run_.records.record_at_rest(step);
}

Result<void> RunSaves::record_to_go_back_to(u64 step) {
  if (!run_.session->plan().speculates) return {};
  TRY_ASSIGN(const bool recorded, record(step));
  if (recorded) return {};
  return Error{ErrorKind::usage,
               "train.speculate: the run has more evaluations than a record can hold: set it to off"};
}

Error RunSaves::save_moved(const MovedDirectory& moved, u64 step, double seconds) {
  end_background();
  return run_.checkpoints->save_moved(moved, state_now(step, seconds), run_.session->state());
}

}  // namespace tidepool
