#include "run/outputs/live_meter.h"

#include <algorithm>
#include <limits>
#include <map>

#include "planner/frame_arcs.h"

namespace tidepool {

namespace {

// RETURNS: for each op, the previous op on its lane: an op begins when the previous one has completed. For
// the first op of a lane this is the lane's last op.
std::vector<u32> op_before(const Segment& segment) {
  std::map<LaneId, u32> last;
  for (u32 op = 0; op < segment.ops.size(); ++op) last[segment.ops[op].lane] = op;
  std::vector<u32> before(segment.ops.size());
  for (u32 op = 0; op < segment.ops.size(); ++op) {
    u32& previous = last[segment.ops[op].lane];
    before[op] = previous;
    previous = op;
  }
  return before;
}

// True if each device has a lane of this kind.
bool of_device(LaneKind kind) { return kind <= LaneKind::comm; }

}  // namespace

LiveMeter::LiveMeter(const Plan& plan) : plan_(plan), change_(plan.segment(SegmentKind::body).ops.size()) {
  count_memory();
  state_.busy.fill(std::numeric_limits<double>::quiet_NaN());
  state_.fill.fill(std::numeric_limits<double>::quiet_NaN());
}

void LiveMeter::count_memory() {
  const Segment& body = plan_.segment(SegmentKind::body);
  const std::vector<u32> before = op_before(body);
  for (const FrameArc& arc : frame_arcs(plan_, body)) {
    const u32 tier = static_cast<u32>(arc.tier);
    const i64 bytes = static_cast<i64>(plan_.chunk(arc.chunk).bytes.value);
    if (arc.permanent()) {
      at_start_[tier] += bytes;
      continue;
    }
    // LiveMeter sees completions only: an op begins when the previous op on its lane has completed.
    const bool first_of_lane = before[arc.from] >= arc.from;
    if (arc.from > arc.to || first_of_lane) at_start_[tier] += bytes;
    change_[before[arc.from]][tier] += bytes;
    change_[arc.to][tier] -= bytes;
  }
}

// Memory is followed in the steady state only; in other segments the view keeps its last values.
void LiveMeter::segment_started(const SegmentRun& run) {
  const bool body = run.kind == SegmentKind::body;
  if (body && !in_body_) used_ = at_start_;
  in_body_ = body;
}

void LiveMeter::completed(const Issue& issue, const Completion& completion) {
  const LaneId id = issue.get().lane;
  const u32 lane = static_cast<u32>(id.kind);
  Nanos& until = busy_until_[id.device == host_device ? 0 : id.device][lane];
  const Nanos from = std::max(completion.started, until);
  if (completion.finished > from) {
    busy_[lane] += completion.finished - from;
    until = completion.finished;
  }
  worked_[lane] = true;
  if (!in_body_ || issue.segment->kind != SegmentKind::body) return;
  for (u32 tier = 0; tier < tier_count; ++tier) used_[tier] += change_[index(issue.op)][tier];
}

const LiveState& LiveMeter::at(double now_seconds) {
  const double passed = now_seconds - renewed_at_;
  if (renewed_at_ < 0 || passed >= window_seconds) {
    for (u32 lane = 0; lane < lane_kind_count; ++lane) {
      if (renewed_at_ >= 0 && worked_[lane]) {
        const double lanes = of_device(static_cast<LaneKind>(lane)) ? plan_.devices : 1;
        state_.busy[lane] = static_cast<double>(busy_[lane].value) * 1e-9 / passed / lanes;
        state_.known = true;
      }
      busy_[lane] = {};
    }
    renewed_at_ = now_seconds;
  }
  for (u32 tier = 0; tier < tier_count; ++tier) {
    const double arenas = static_cast<Tier>(tier) == Tier::device ? plan_.devices : 1;
    const double bytes = static_cast<double>(plan_.tiers[tier].planned_peak.value) * arenas;
    // The fill is a share of the arena: as a share of a much larger budget, every bar would look empty.
    if (in_body_ && bytes > 0) state_.fill[tier] = static_cast<double>(std::max<i64>(used_[tier], 0)) / bytes;
  }
  return state_;
}

}  // namespace tidepool
