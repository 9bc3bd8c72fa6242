// TimeProfile walks each gap of the compute lane backwards and adds it to the causes that it finds.
#include "engine/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace tidepool {
namespace {

// Gaps do not overlap, so all chains together are about as long as the plan. Time beyond this limit counts as
// `other`.
constexpr u32 chain_links_max = 1 << 16;

Cause cause_of(const Op& op) {
  if (op.persists) return Cause::commit;
  switch (op.lane.kind) {
    case LaneKind::compute:
      return op.lane.device == 0 ? Cause::compute : Cause::comm;
    case LaneKind::h2d:
      return Cause::h2d;
    case LaneKind::d2h:
      return Cause::d2h;
    case LaneKind::disk_read:
      return Cause::disk_read;
    case LaneKind::disk_write:
      return Cause::disk_write;
    case LaneKind::host:
      return is_update(op.kind) ? Cause::update : Cause::other;
    case LaneKind::comm:
      return Cause::comm;
    case LaneKind::net_send:
    case LaneKind::net_receive:
      return Cause::net;
  }
  return Cause::other;
}

Nanos& share(std::array<Nanos, cause_count>& causes, Cause cause) { return causes[static_cast<u32>(cause)]; }

constexpr double tie = 0.98;

// Reads and writes share one drive: if both are about as busy, a wait for one is a wait for the other too.
std::string_view disk_name(const PhaseProfile& phase) {
  const auto busy = [&](LaneKind lane) { return phase.busy[static_cast<u32>(lane)].value; };
  const auto [less, more] = std::minmax({busy(LaneKind::disk_read), busy(LaneKind::disk_write)});
  if (2 * less >= more) return "disk";
  const auto of = [&](Cause cause) { return phase.exposed[static_cast<u32>(cause)]; };
  return name(of(Cause::disk_read) > of(Cause::disk_write) ? Cause::disk_read : Cause::disk_write);
}

}  // namespace

std::string binding_resource(const PhaseProfile& phase) {
  const auto of = [&](Cause cause) { return phase.exposed[static_cast<u32>(cause)].value; };
  std::vector<std::pair<std::string_view, u64>> all;
  for (const Cause cause :
       {Cause::compute, Cause::update, Cause::h2d, Cause::d2h, Cause::comm, Cause::commit, Cause::net})
    all.emplace_back(name(cause), of(cause));
  all.emplace_back(disk_name(phase), of(Cause::disk_read) + of(Cause::disk_write));
  const auto longest = std::ranges::max_element(all, {}, [](const auto& one) { return one.second; });
  const double least = tie * static_cast<double>(longest->second);
  std::string names(longest->first);
  u64 next = 0;
  for (auto one = all.begin(); one != all.end(); ++one) {
    if (one == longest || one->second <= next || static_cast<double>(one->second) < least) continue;
    next = one->second;
    names = one < longest ? fmt::format("{} and {}", one->first, longest->first)
                          : fmt::format("{} and {}", longest->first, one->first);
  }
  return names;
}

Nanos PhaseProfile::wall() const {
  Nanos sum{};
  for (const Nanos part : exposed) sum += part;
  return sum;
}

TimeProfile::TimeProfile(const Plan& plan) : schedule_(plan) {
  past_.resize(std::bit_ceil(u64{4} * std::max(schedule_.ops_max(), 1u)));
}

PhaseProfile TimeProfile::total() const {
  PhaseProfile sum;
  for (const PhaseProfile& phase : phases_) {
    sum.runs += phase.runs;
    for (u32 i = 0; i < cause_count; ++i) sum.exposed[i] += phase.exposed[i];
    for (u32 i = 0; i < lane_kind_count; ++i) sum.busy[i] += phase.busy[i];
  }
  return sum;
}

void TimeProfile::clear() { phases_ = {}; }

void TimeProfile::segment_started(const SegmentRun& what, u64 first_sequence) {
  std::rotate(runs_.begin(), runs_.end() - 1, runs_.end());
  const LinkIndex* link = runs_known_ > 0 ? schedule_.link(runs_[1].what.kind, what.kind) : nullptr;
  runs_[0] = {.what = what, .first_sequence = first_sequence, .link = link};
  runs_known_ = std::min<u32>(runs_known_ + 1, runs_.size());
}

void TimeProfile::completed(const Issue& issue, const Completion& completion) {
  past_[issue.sequence & (past_.size() - 1)] = {.sequence = issue.sequence,
                                                .started = completion.started,
                                                .finished = completion.finished,
                                                .cause = cause_of(issue.get())};
  PhaseProfile& phase = phases_[static_cast<u32>(issue.segment->kind)];
  count_busy(issue, completion, phase);
  if (!origin_known_) {
    compute_until_ = completion.started;
    origin_known_ = true;
  }
  if (completion.finished >= latest_finish_) {
    latest_finish_ = completion.finished;
    latest_ = issue.sequence;
  }
  if (issue.get().lane != LaneId{0, LaneKind::compute}) return;
  cover_gap(issue.sequence, compute_until_, completion.started, phase);
  const Nanos from = std::max(compute_until_, completion.started);
  if (completion.finished > from) {
    share(phase.exposed, Cause::compute) += completion.finished - from;
    compute_until_ = completion.finished;
  }
}

void TimeProfile::segment_finished(const SegmentRun& run) { ++phases_[static_cast<u32>(run.kind)].runs; }

// Accounts for the work after the last compute op: the tail of write-backs and updates of a drain.
void TimeProfile::at_rest() {
  if (origin_known_ && latest_finish_ > compute_until_) {
    const Run* run = run_of(latest_);
    const Past* last = past(latest_);
    if (run && last) {
      PhaseProfile& phase = phases_[static_cast<u32>(run->what.kind)];
      const Nanos from = std::max(compute_until_, last->started);
      cover_gap(latest_, compute_until_, from, phase);
      share(phase.exposed, last->cause) += latest_finish_ - from;
    }
  }
  // The pause at rest (evaluation prints, checkpoints) is not part of the plan's time.
  origin_known_ = false;
  latest_finish_ = {};
  runs_known_ = 0;
}

void TimeProfile::cover_gap(u64 sequence, Nanos gap_begin, Nanos gap_end, PhaseProfile& phase) {
  Cause waits = Cause::other;  // until the current op began
  for (u32 link = 0; link < chain_links_max && gap_end > gap_begin; ++link) {
    const Past* cause = released_by(sequence);
    const Past* before = issued_before(sequence);
    // A disk lane starts its requests in order, and as many at once as its queue is deep: the op waited for
    // its turn.
    waits = before ? before->cause : Cause::other;
    if (before && (!cause || before->started >= cause->finished)) {
      const Nanos began = std::clamp(before->started, gap_begin, gap_end);
      share(phase.exposed, waits) += gap_end - began;
      gap_end = began;
      sequence = before->sequence;
      continue;
    }
    if (!cause || cause->finished <= gap_begin) break;
    const Nanos finished = std::min(cause->finished, gap_end);
    const Nanos started = std::clamp(cause->started, gap_begin, finished);
    share(phase.exposed, waits) += gap_end - finished;
    // Compute ops do not run inside a gap of the compute lane, except for clock rounding.
    share(phase.exposed, cause->cause) += finished - started;
    gap_end = started;
    sequence = cause->sequence;
  }
  if (gap_end > gap_begin) share(phase.exposed, waits) += gap_end - gap_begin;
}

// RETURNS: of all ops that had to finish before the op, the one that finished last.
const TimeProfile::Past* TimeProfile::released_by(u64 sequence) const {
  const Run* run = run_of(sequence);
  if (!run) return nullptr;
  const Segment& segment = schedule_.plan().segment(run->what.kind);
  const u32 op = static_cast<u32>(sequence - run->first_sequence);
  const Past* best = nullptr;
  for (const OpId dep : segment.deps_of(segment.ops[op])) consider(run->first_sequence + index(dep), best);
  if (run->link) {
    const Run& before = *(run + 1);
    for (const OpId dep : run->link->deps_of(OpId{op})) consider(before.first_sequence + index(dep), best);
  }
  if (is_ordered(segment.ops[op].lane.kind)) consider(lane_predecessor(*run, op), best);
  return best;
}

// RETURNS: on a disk lane, the request that started before this op; null on other lanes.
const TimeProfile::Past* TimeProfile::issued_before(u64 sequence) const {
  const Run* run = run_of(sequence);
  if (!run) return nullptr;
  const u32 op = static_cast<u32>(sequence - run->first_sequence);
  if (is_ordered(schedule_.plan().segment(run->what.kind).ops[op].lane.kind)) return nullptr;
  return past(lane_predecessor(*run, op));
}

u64 TimeProfile::lane_predecessor(const Run& run, u32 op) const {
  const SegmentLanes& lanes = schedule_.of(run.what.kind);
  const u32 lane = lanes.lane_of[op];
  if (lanes.position[op] > 0) return run.first_sequence + index(lanes.at(lane, lanes.position[op] - 1));
  const Run* before = &run + 1;
  if (before >= runs_.data() + runs_known_) return none_known;
  const SegmentLanes& earlier = schedule_.of(before->what.kind);
  const u32 count = earlier.count(lane);
  return count == 0 ? none_known : before->first_sequence + index(earlier.at(lane, count - 1));
}

void TimeProfile::consider(u64 sequence, const Past*& best) const {
  const Past* candidate = past(sequence);
  if (candidate && (!best || candidate->finished > best->finished)) best = candidate;
}

const TimeProfile::Past* TimeProfile::past(u64 sequence) const {
  const Past& slot = past_[sequence & (past_.size() - 1)];
  return slot.sequence == sequence ? &slot : nullptr;
}

const TimeProfile::Run* TimeProfile::run_of(u64 sequence) const {
  for (u32 i = 0; i < runs_known_; ++i) {
    const u64 first = runs_[i].first_sequence;
    const u64 ops = schedule_.plan().segment(runs_[i].what.kind).ops.size();
    if (sequence >= first && sequence < first + ops) return &runs_[i];
  }
  return nullptr;
}

// Ordered lanes run one op at a time. Requests of a disk lane overlap, so overlapping time is counted once.
void TimeProfile::count_busy(const Issue& issue, const Completion& completion, PhaseProfile& phase) {
  const LaneId id = issue.get().lane;
  if (id.device != 0 && id.device != host_device) return;
  const u32 lane = static_cast<u32>(id.kind);
  const Nanos from = std::max(completion.started, busy_until_[lane]);
  if (completion.finished <= from) return;
  phase.busy[lane] += completion.finished - from;
  busy_until_[lane] = completion.finished;
}

}  // namespace tidepool
