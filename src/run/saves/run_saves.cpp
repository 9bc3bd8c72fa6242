#include "run/saves/run_saves.h"

#include "base/steady_seconds.h"
#include "run/outputs/signals.h"

namespace tidepool {

void RunSaves::begin() {
  moments_.begin(steady_seconds());
  // A run that was killed between its best evaluation and the save of it.
  const EvalLoss* best = best_evaluation(run_.state.eval_losses);
  if (best != nullptr && best->step > run_.state.best_step) run_.durability.tell(Event::best_is_found);
  // A step that was trained before may be committed now: if nothing is left to train, before the last save.
  run_.commits.progress().rested(run_.state);
  run_.commits.progress().step_done(run_.state, run_.state.step, run_.state.seconds);
}

bool RunSaves::due(u64 step) const { return moments_.due(step, steady_seconds()); }

void RunSaves::tell_signals() const {
  if (now().saved) return StopSignals::say_instead({});
  StopSignals::say_instead({.second = now().committed.value_or(0) > 0
                                          ? "\ntidepool: stopped at once; the last committed step is intact\n"
                                          : "\ntidepool: stopped at once; no step had been saved yet\n"});
}

TrainerState RunSaves::state_now(double seconds) {
  run_.session->state().invalidate();
  TrainerState state = run_.state;
  state.step = now().issued;
  state.seconds = seconds;
  if (now().best_unsaved) state.best_step = state.step;
  return state;
}

void RunSaves::succeeded(const TrainerState& state) {
  run_.durability.tell(Event::save_succeeds);
  run_.state.best_step = state.best_step;
  run_.commits.progress().rested(run_.state);
  tell_signals();
}

Result<void> RunSaves::save(double seconds) {
  if (!run_.job.config.output.save) return {};
  moments_.tried(steady_seconds());
  end_background();
  const TrainerState state = state_now(seconds);
  TRY_ASSIGN(const bool committed, run_.commits.commit_at_rest(state.step));
  tell_signals();
  if (committed && run_.session->has_swap_file() && may_save_in_background(now()))
    return save_in_background(state);
  run_.durability.tell(Event::save_begins_at_rest);
  TRY_ASSIGN(const bool written, run_.checkpoints->save(state, run_.session->state()));
  written ? succeeded(state) : static_cast<void>(run_.durability.tell(Event::save_fails));
  return {};
}

Result<void> RunSaves::save_in_background(const TrainerState& state) {
  TRY_ASSIGN(std::unique_ptr<StateReader> reader, run_.session->read_commit());
  const double share = RunCommits::share_of_saves(run_.prediction, !run_.job.config.machine.gpus().empty(),
                                                  checkpoint_bytes(run_.job.graph));
  run_.durability.tell(Event::save_begins_in_background);
  if (!run_.checkpoints->begin_save(state, std::move(reader), share)) run_.durability.tell(Event::save_fails);
  return {};
}

void RunSaves::end_if_done() {
  if (run_.checkpoints->background_is_done()) end_background();
}

void RunSaves::end_background() {
  if (now().save != SaveState::in_background) return;
  if (const std::optional<TrainerState> state = run_.checkpoints->end_save())
    succeeded(*state);
  else
    run_.durability.tell(Event::save_fails);
}

Result<void> RunSaves::save_last(double seconds) {
  if (!run_.job.config.output.save) return {};
  end_background();
  const TrainerState state = state_now(seconds);
  // Nothing is lost then if the save fails. A commit that fails is no reason not to save.
  if (const Result<bool> committed = run_.commits.commit_at_rest(state.step);
      committed && *committed && state.step > 0)
    run_.checkpoints->set_resume_hint(run_.commits.resume_hint());
  run_.durability.tell(Event::save_begins_at_rest);
  TRY(run_.checkpoints->save_last(state, run_.session->state()));
  succeeded(state);
  return {};
}

Result<bool> RunSaves::commit() {
  if (commits_pause(now())) end_background();
  return run_.commits.commit_at_rest(now().issued);
}

Result<void> RunSaves::commit_to_replay_from() {
  if (!now().policy.speculates) return {};
  TRY_ASSIGN(const bool committed, commit());
  if (committed) return {};
  return Error{ErrorKind::usage,
               "train.speculate: the run has more evaluations than a commit can hold: set it to off"};
}

Error RunSaves::save_moved(const MovedDirectory& moved, double seconds) {
  end_background();
  return run_.checkpoints->save_moved(moved, state_now(seconds), run_.session->state());
}

}  // namespace tidepool
