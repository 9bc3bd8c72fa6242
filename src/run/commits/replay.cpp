#include "run/commits/replay.h"

namespace tidepool {

Result<void> Replay::go_back(Session& session, RunDurability& durability, RunCommits& commits,
                             TrainerState& state) {
  const u64 wrong = *durability.state().wrong;
  const CommitProgress::Numbers& committed = commits.last_numbers();
  session.results().replay(wrong, session.results().result(wrong));
  TRY(session.committed().roll_back(committed.step));
  state.step = committed.step;
  state.tokens = committed.tokens;
  state.losses.resize(committed.step);
  LossScale scale;
  if (state.loss_scale) {
    state.loss_scale = committed.loss_scale;
    scale = {.scale = static_cast<float>(committed.loss_scale.scale),
             .good_steps = static_cast<u32>(committed.loss_scale.good_steps),
             .skipped_steps = committed.loss_scale.skipped_steps};
  }
  session.results().set_loss_scale(scale);
  commits.progress().step_done(state, state.step, committed.seconds);
  commits.replayed();
  durability.tell(Event::state_is_back, committed.step);
  ++times_;
  steps_ += wrong - committed.step;
  again_ += wrong - committed.step;
  return {};
}

void Replay::fill(RunReport& report, const Plan& plan) const {
  report.speculated = plan.speculates;
  report.redos = times_;
  report.redone_steps = steps_;
}

}  // namespace tidepool
