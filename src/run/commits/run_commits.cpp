#include "run/commits/run_commits.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text/units.h"
#include "io/memory_limits.h"

namespace tidepool {

void RunCommits::begin(Session& session, const CommitPace& pace) {
  session_ = &session;
  pace_ = pace;
  said_ = pace.steps();
  totals_ = {};
  progress_.begin(session.payload_max());
}

Result<bool> RunCommits::commit_at_rest(u64 step) {
  if (pace_.steps() == 0) return false;
  if (durability_.state().committed == step && !progress_.has_news()) return true;
  return commit_again(step);
}

Result<bool> RunCommits::commit_again(u64 step) {
  Result<bool> made = session_->committed().commit_at_rest(step);
  if (made && *made) committed(Event::commit_is_durable, step);
  if (!made && durability_.state().committing) durability_.tell(Event::commit_fails);
  return made;
}

void RunCommits::taken_over(u64 step) { committed(Event::commit_is_taken_over, step); }

void RunCommits::committed(Event event, u64 step) {
  if (durability_.tell(event, step) == Action::keep_file) session_->keep_commit();
  last_ = progress_.numbers(step);
  if (file_ != nullptr) file_->committed(step);
}

SegmentRun RunCommits::with_choice(SegmentRun run, const PhaseProfile& so_far, RunOutputs& outputs) {
  const bool waits = durability_.state().policy.waits_for_norm;
  run.persists = false;
  if (waits && run.kind == SegmentKind::forward_backward) return run;  // it updates and commits nothing
  const u64 updated = waits ? run.step - 1 : run.step;
  run.persists = is_due(updated, so_far, outputs);
  if (run.persists) durability_.tell(Event::commit_is_chosen, updated);
  return run;
}

bool RunCommits::is_due(u64 updated, const PhaseProfile& so_far, RunOutputs& outputs) {
  const Durability& now = durability_.state();
  const auto enough = [&] { return pace_.steps() > 0 && updated >= now.chosen + pace_.steps(); };
  if (!enough() || (commits_pause(now) && pace_.steps() > 1)) return false;
  totals_.steps = so_far.runs;
  totals_.wall = so_far.wall();
  totals_.waited = so_far.exposed[static_cast<u32>(Cause::commit)];
  if (pace_.follow(totals_) && is_news(pace_.steps()))
    outputs.say(fmt::format("a commit of the state takes {}: from now on {} (output.persist_steps)",
                            seconds_text(pace_.seconds_of_commit()), how_often()));
  return enough();
}

// Without a payload the op has committed nothing.
void RunCommits::completed(const Issue& issue, const Completion& completion) {
  if (durability_.state().committing != issue.step) return;
  ++totals_.commits;
  totals_.committing += completion.finished - completion.started;
  committed(Event::commit_is_durable, issue.step);
}

double RunCommits::share_of_saves(const Prediction& prediction, bool gpus, Bytes bytes) {
  constexpr double least = 0.05, most = 0.5, seconds_at_most = 300;
  const DiskRates& rates = prediction.machine.disk;
  const double work =
      static_cast<double>(bytes.value) * (1 / rates.read_bytes_per_s + 1 / rates.write_bytes_per_s);
  const double share = std::clamp(work / seconds_at_most, least, 1.0);
  if (!gpus || !(prediction.forecast.step_seconds > 0)) return share;
  const auto& busy = prediction.forecast.busy_seconds;
  const double disk =
      std::max(busy[static_cast<u32>(LaneKind::disk_read)], busy[static_cast<u32>(LaneKind::disk_write)]);
  return std::max(share, std::clamp((1 - disk / prediction.forecast.step_seconds) / 2, least, most));
}

std::string RunCommits::resume_hint() const {
  return fmt::format("resume with --resume auto: the state after step {} is committed in the swap file",
                     durability_.state().committed.value_or(0));
}

// Twice or half the steps are no news.
bool RunCommits::is_news(u64 steps) {
  if (steps <= 2 * said_ && said_ <= 2 * steps) return false;
  said_ = steps;
  return true;
}

std::string RunCommits::how_often() const {
  const u64 steps = pace_.steps();
  return steps == 1 ? "each step is committed" : fmt::format("one step in {} is committed", steps);
}

std::string RunCommits::describe() const {
  if (pace_.steps() == 0) return "";
  const Bytes written =
      persisted_bytes(session_->plan(), SegmentKind::body)[static_cast<u32>(LinkKind::disk_write)];
  std::string text = how_often();
  if (written.value > 0) text += fmt::format(", which writes {} that rest in memory", format_bytes(written));
  return text + ": after a kill or a power cut, --resume auto resumes from there";
}

}  // namespace tidepool
