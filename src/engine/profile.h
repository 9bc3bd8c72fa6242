// TimeProfile tells where the time of a run went: per kind of segment, how long each lane worked, and what
// the compute lane waited for.
//
// A gap before a compute op is walked backwards along the ops that released it: the dependency (or the op
// before it on its lane) that finished last, then the op that released that one, and so on until the gap is
// covered. Each stretch counts for the lane that worked in it, so a copy that was late because its read was
// late costs disk_read, not h2d. A request that waited for its turn on a disk lane waited for the requests
// before it. Stretches in which no op of that chain ran are `other` (hand-over between lanes, loading
// batches). Compute plus all causes is the wall time, exactly.
//
// Ops that only write the state for a commit (Op::persists) are `commit` on any lane: so the cost of commits
// is a cause of its own.
//
// With several devices it is device 0's time. Compute of another device counts as `comm` while device 0 has
// to wait for it, and so do the collectives themselves.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace tidepool {

enum class Cause : u8 { compute, update, h2d, d2h, comm, disk_read, disk_write, commit, net, other };
inline constexpr u32 cause_count = 10;
// Key of a report. A commit has the key of older reports.
constexpr std::string_view name(Cause cause) {
  constexpr std::array<std::string_view, cause_count> names = {
      "compute", "update", "h2d", "d2h", "comm", "disk_read", "disk_write", "record", "net", "other"};
  return names[static_cast<u32>(cause)];
}

struct PhaseProfile {
  u64 runs = 0;
  std::array<Nanos, cause_count> exposed{};  // `compute` is the time computed; the sum is wall time
  // Work per kind of lane, of device 0. For a disk lane: time with at least one request in flight.
  std::array<Nanos, lane_kind_count> busy{};

  Nanos wall() const;
};

// Name of the resource that most of the time waits for: "compute", "h2d", "disk_read", ..., or "disk" if it
// is read and written at once. If the second is within 2 % of the first, both names in a fixed order:
// "compute and h2d".
std::string binding_resource(const PhaseProfile&);

// All memory is taken in the constructor.
class TimeProfile final : public EngineObserver {
 public:
  explicit TimeProfile(const Plan&);

  const PhaseProfile& of(SegmentKind kind) const { return phases_[static_cast<u32>(kind)]; }
  PhaseProfile total() const;
  void clear();

  void segment_started(const SegmentRun&, u64 first_sequence) override;
  void completed(const Issue&, const Completion&) override;
  void segment_finished(const SegmentRun&) override;
  void at_rest() override;

 private:
  static constexpr u64 none_known = ~u64{0} - 1;  // no op's sequence

  // Past is what is kept of one op: enough to walk back through the last two runs.
  struct Past {
    u64 sequence = ~u64{0};
    Nanos started{}, finished{};
    Cause cause{};
  };
  struct Run {
    SegmentRun what;
    u64 first_sequence = 0;
    const LinkIndex* link = nullptr;
  };

  void cover_gap(u64 sequence, Nanos gap_begin, Nanos gap_end, PhaseProfile&);
  const Past* released_by(u64 sequence) const;
  const Past* issued_before(u64 sequence) const;
  u64 lane_predecessor(const Run&, u32 op) const;  // sequence of the op before it on its lane, or none_known
  void consider(u64 sequence, const Past*& best) const;
  const Past* past(u64 sequence) const;
  const Run* run_of(u64 sequence) const;
  void count_busy(const Issue&, const Completion&, PhaseProfile&);

  const Schedule schedule_;
  std::vector<Past> past_;     // ring by sequence
  std::array<Run, 3> runs_{};  // newest first
  u32 runs_known_ = 0;
  std::array<PhaseProfile, segment_count> phases_{};
  std::array<Nanos, lane_kind_count> busy_until_{};
  Nanos compute_until_{};  // the timeline is accounted for up to here
  bool origin_known_ = false;
  u64 latest_ = 0;  // sequence of the op that finished last
  Nanos latest_finish_{};
};

}  // namespace tidepool
