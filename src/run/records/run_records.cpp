#include "run/records/run_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text/units.h"
#include "io/memory_limits.h"
#include "log/log.h"

namespace tidepool {

void RunRecords::begin(Session& session, const RecordPace& pace) {
  session_ = &session;
  pace_ = pace;
  said_ = pace.steps();
  progress_.begin(session.payload_max());
}

Result<bool> RunRecords::record_at_rest(u64 step) {
  if (pace_.steps() == 0) return false;
  if (last_ && last_->step == step && !progress_.has_news()) return true;
  TRY_ASSIGN(const bool made, session_->recorded().record_at_rest(step));
  if (made) recorded(step);
  return made;
}

void RunRecords::recorded(u64 step) {
  const bool first = !last_;
  log_debug("the state is recorded after step {}", step);
  last_ = progress_.numbers(step);
  chosen_ = std::max(chosen_, step);
  if (first) session_->keep_record();
  if (file_ != nullptr) file_->recorded(step);
}

SegmentRun RunRecords::with_choice(SegmentRun run, const PhaseProfile& so_far, RunOutputs& outputs) {
  const bool clipping = session_->plan().clipping;
  run.persists = false;
  if (clipping && run.kind == SegmentKind::forward_backward) return run;  // it updates and records nothing
  const u64 updated = clipping ? run.step - 1 : run.step;
  run.persists = is_due(updated, so_far, outputs);
  if (run.persists) chosen_ = updated;
  return run;
}

bool RunRecords::is_due(u64 updated, const PhaseProfile& so_far, RunOutputs& outputs) {
  const auto enough = [&] { return pace_.steps() > 0 && updated >= chosen_ + pace_.steps(); };
  if (!enough() || (progress_.paused() && pace_.steps() > 1)) return false;
  totals_.steps = so_far.runs;
  totals_.wall = so_far.wall();
  totals_.waited = so_far.exposed[static_cast<u32>(Cause::record)];
  if (pace_.follow(totals_) && is_news(pace_.steps()))
    outputs.say(fmt::format("a record of the state takes {}: from now on {} (output.persist_steps)",
                            seconds_text(pace_.seconds_of_record()), how_often()));
  return enough();
}

void RunRecords::went_back() {
  ++totals_.redos;
  chosen_ = last_step();
}

void RunRecords::completed(const Issue& issue, const Completion& completion) {
  if (progress_.last_supplied() != issue.step) return;  // it was not recorded
  ++totals_.records;
  totals_.recording += completion.finished - completion.started;
  recorded(issue.step);
}

double RunRecords::share_of_saves(const Prediction& prediction, bool gpus, Bytes bytes) {
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

std::string RunRecords::way_on(std::optional<u64> last_checkpoint, std::string else_) const {
  if (last_step() <= last_checkpoint.value_or(0)) return else_;
  return fmt::format("resume with --resume auto: the state after step {} is recorded in the swap file",
                     last_step());
}

// Twice or half the steps are no news.
bool RunRecords::is_news(u64 steps) {
  if (steps <= 2 * said_ && said_ <= 2 * steps) return false;
  said_ = steps;
  return true;
}

std::string RunRecords::how_often() const {
  const u64 steps = pace_.steps();
  return steps == 1 ? "each step is recorded" : fmt::format("one step in {} is recorded", steps);
}

std::string RunRecords::describe() const {
  if (pace_.steps() == 0) return "";
  const Bytes written =
      persisted_bytes(session_->plan(), SegmentKind::body)[static_cast<u32>(LinkKind::disk_write)];
  std::string text = how_often();
  if (written.value > 0) text += fmt::format(", which writes {} that rest in memory", format_bytes(written));
  return text + ": after a kill or a power cut, --resume auto resumes from there";
}

}  // namespace tidepool
