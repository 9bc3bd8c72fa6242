#include "run/records/run_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "fit/forecast.h"
#include "io/memory_limits.h"

namespace tidepool {

u64 persist_steps(const Config& config, const Plan& plan, const ModelGraph& graph,
                  const Prediction& prediction) {
  constexpr double slower_at_most = 0.02;
  constexpr u64 if_unknown = 16;
  if (plan.versions < 2) return 0;
  if (config.output.persist_steps > 0) return config.output.persist_steps;
  const Bytes resting = persisted_bytes(plan, SegmentKind::body)[static_cast<u32>(LinkKind::disk_write)];
  if (resting.value < plan.second_slot.value / 20) return 1;  // nearly all is written in each step anyway
  if (prediction.blocks.empty()) return if_unknown;
  const auto seconds = [&](bool persists) {
    const Result<Forecast> step =
        forecast(plan, graph, prediction.machine,
                 {.blocks = prediction.blocks, .persists = persists, .check_tags = false});
    return step ? step->step_seconds : 0;
  };
  const double without = seconds(false), with = seconds(true);
  if (!(without > 0)) return if_unknown;
  return static_cast<u64>(std::max(1.0, std::ceil((with / without - 1) / slower_at_most)));
}

void RunRecords::begin(Session& session, u64 persist_steps) {
  session_ = &session;
  every_ = persist_steps;
  progress_.begin(session.payload_max());
}

Result<bool> RunRecords::record_at_rest(u64 step) {
  if (every_ == 0) return false;
  if (last_ && last_->step == step && !progress_.has_news()) return true;
  TRY_ASSIGN(const bool made, session_->recorded().record_at_rest(step));
  if (made) recorded(step);
  return made;
}

void RunRecords::recorded(u64 step) {
  const bool first = !last_;
  last_ = progress_.numbers(step);
  if (first) session_->keep_record();
}

SegmentRun RunRecords::with_choice(SegmentRun run) const {
  const u64 updated = session_->plan().clipping ? run.step - 1 : run.step;
  run.persists = every_ > 0 && updated > 0 && updated % every_ == 0 && (every_ == 1 || !progress_.paused());
  return run;
}

void RunRecords::completed(const Issue& issue) {
  if (progress_.last_supplied() != issue.step) return;  // it was not recorded
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

std::string RunRecords::describe() const {
  if (every_ == 0) return "";
  const Bytes written =
      persisted_bytes(session_->plan(), SegmentKind::body)[static_cast<u32>(LinkKind::disk_write)];
  std::string text =
      every_ == 1 ? "each step is recorded" : fmt::format("each {}th step is recorded", every_);
  if (written.value > 0) text += fmt::format(", which writes {} that rest in memory", format_bytes(written));
  return text + ": after a kill or a power cut, --resume auto resumes from there";
}

}  // namespace tidepool
