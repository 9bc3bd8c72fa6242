#include "executor/lanes/lane_book.h"

#include <algorithm>
#include <bit>

namespace tidepool {
namespace {

constexpr u32 lanes_of_all = 6, lanes_of_device = 3;

}  // namespace

u64 sequences_max(const Plan& plan) {
  u64 ops = 1;
  for (const Segment& segment : plan.segments) ops = std::max<u64>(ops, segment.ops.size());
  return 2 * ops;
}

LaneBook::LaneBook(const Plan& plan, u32 ordered_depth, u32 disk_depth)
    : devices_(plan.devices),
      ordered_depth_(ordered_depth),
      disk_depth_(disk_depth),
      held_(lanes_of_all + plan.devices * lanes_of_device),
      lane_by_sequence_(std::bit_ceil(2 * sequences_max(plan))) {
  // No operand names a table whose rows are looked up.
  for (u32 id = 0; id < plan.homes.size() && plan.lookup.on(); ++id)
    if (plan.chunks[id].window == plan.lookup.window) high_water_.touch(plan.homes[id]);
}

u32 LaneBook::number(LaneId lane) const {
  switch (lane.kind) {
    case LaneKind::host:
      return 0;
    case LaneKind::comm:
      return 1;
    case LaneKind::disk_read:
      return 2;
    case LaneKind::disk_write:
      return 3;
    case LaneKind::net_send:
      return 4;
    case LaneKind::net_receive:
      return 5;
    default:
      break;
  }
  CHECK(lane.device < devices_, name(lane.kind), lane.device);
  return lanes_of_all + lane.device * lanes_of_device + static_cast<u32>(lane.kind);
}

u32 LaneBook::ops_max() const {
  return (2 + devices_ * lanes_of_device) * ordered_depth_ + 2 * disk_depth_ + 2 * net_depth;
}

u32 LaneBook::slots_free(LaneId lane) const {
  const u32 depth = is_ordered(lane.kind) ? ordered_depth_ : is_net(lane.kind) ? net_depth : disk_depth_;
  return depth - held_[number(lane)];
}

void LaneBook::submitted(const Issue& issue) {
  const LaneId lane = issue.get().lane;
  CHECK(slots_free(lane) > 0, name(lane.kind), issue.sequence);
  for (const Operand& o : issue.segment->operands_of(issue.get())) high_water_.touch(o.frame);
  ++held_[number(lane)];
  lane_by_sequence_[issue.sequence & (lane_by_sequence_.size() - 1)] = number(lane);
}

void LaneBook::completed(std::span<const Completion> completions) {
  for (const Completion& c : completions)
    --held_[lane_by_sequence_[c.sequence & (lane_by_sequence_.size() - 1)]];
}

bool LaneBook::busy() const {
  return std::any_of(held_.begin(), held_.end(), [](u32 n) { return n > 0; });
}

}  // namespace tidepool
