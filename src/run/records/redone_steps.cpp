#include "run/records/redone_steps.h"

#include "base/check.h"

namespace tidepool {

bool RedoneSteps::must_redo(const Session& session, u64 step) {
  if (!session.plan().speculates || session.results().assumed_right(step)) return false;
  wrong_step_ = step;
  return true;
}

bool RedoneSteps::is_known(u64 step) {
  if (step <= known_) return true;
  known_ = step;
  return false;
}

Result<u64> RedoneSteps::go_back(Session& session, RunRecords& records, TrainerState& state) {
  CHECK(found() && records.last_numbers().has_value(), times_);
  const u64 wrong = *wrong_step_;
  const ProgressRecord::Numbers& recorded = *records.last_numbers();
  session.results().foresee(wrong, session.results().result(wrong));
  TRY(session.recorded().roll_back(recorded.step));
  state.step = recorded.step;
  state.tokens = recorded.tokens;
  state.losses.resize(recorded.step);
  LossScale scale;
  if (state.loss_scale) {
    state.loss_scale = recorded.loss_scale;
    scale = {.scale = static_cast<float>(recorded.loss_scale.scale),
             .good_steps = static_cast<u32>(recorded.loss_scale.good_steps),
             .skipped_steps = recorded.loss_scale.skipped_steps};
  }
  session.results().set_loss_scale(scale);
  records.progress().step_done(state, state.step, recorded.seconds);
  records.went_back();
  ++times_;
  steps_ += wrong - recorded.step;
  again_ += wrong - recorded.step;
  wrong_step_.reset();
  return recorded.step;
}

void RedoneSteps::fill(RunReport& report, const Plan& plan) const {
  report.speculated = plan.speculates;
  report.redos = times_;
  report.redone_steps = steps_;
}

}  // namespace tidepool
