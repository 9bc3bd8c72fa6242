#include "planner/verify/verify_commit.h"

#include <fmt/format.h>

#include <vector>

namespace tidepool {
namespace {

bool must_be_committed(const Plan& plan, const ModelGraph& graph, const Chunk& chunk) {
  return is_persistent(chunk) && graph.windows[chunk.window].trainable && chunk.owner == plan.node;
}

std::string wrong_with_slots(const Plan& plan, const ModelGraph& graph) {
  u64 end = 0;
  for (u32 id = 0; id < plan.chunks.size(); ++id) {
    const Frame& slot = plan.slots[id];
    const bool committed = slot.bytes.value > 0;
    if (committed != must_be_committed(plan, graph, plan.chunks[id]))
      return fmt::format("chunk {} {}", id, committed ? "has slots, but is not trained" : "has no slots");
    if (!committed) continue;
    if (slot.tier != Tier::disk || slot.bytes != plan.chunks[id].bytes || slot.offset < end)
      return fmt::format("the slot of chunk {} is not a place of its own", id);
    end = slot.end();
    if (plan.homes[id].tier == Tier::disk && plan.homes[id] != slot)
      return fmt::format("chunk {} is at home beside its slot", id);
  }
  if (end > plan.second_slot.value) return "second slots begin before first slots end";
  const Bytes disk = plan.tiers[static_cast<u32>(Tier::disk)].planned_peak;
  return plan.second_slot * plan.versions > disk ? "the last slots end after the disk's bytes" : "";
}

// Only chunks of the commit lie in slots, each in its own.
std::string wrong_with_frames(const Plan& plan, const Segment& segment) {
  const u64 slots_end = plan.versions * plan.second_slot.value;
  for (u32 i = 0; i < segment.ops.size(); ++i)
    for (const Operand& o : segment.operands_of(segment.ops[i])) {
      if (o.frame.tier != Tier::disk) continue;
      const bool right = plan.is_committed(o.first) ? o.frame.offset == plan.slots[index(o.first)].offset
                                                    : o.frame.offset >= slots_end;
      if (!right) return fmt::format("{} op {} touches slots of other chunks", name(segment.kind), i);
    }
  return "";
}

// Ops of steps that are committed may only move content to slots: other steps skip them.
bool may_be_skipped(const Plan& plan, const Segment& segment, const Op& op) {
  if (op.kind == OpKind::commit) return true;
  const auto operands = segment.operands_of(op);
  if (op.kind == OpKind::copy) return op.lane.kind == LaneKind::d2h;
  return op.kind == OpKind::write && plan.homes[index(operands[0].first)].tier != Tier::disk;
}

std::string wrong_with_operands_of(const Plan& plan, const Segment& segment, const Op& commit) {
  std::vector<bool> read(plan.chunks.size(), false);
  bool has_loss = plan.clipping;  // then updates have waited for it
  for (const Operand& o : segment.operands_of(commit)) {
    has_loss |= plan.chunk(o.first).kind == Kind::scalars;
    if (o.access != Access::read) return "changes what it commits";
    for (u32 c = 0; c < o.count; ++c)
      if (plan.is_committed(ChunkId{index(o.first) + c})) {
        read[index(o.first) + c] = true;
        if (o.version != 1) return "does not commit each chunk as the step's update leaves it";
      }
  }
  for (u32 id = 0; id < plan.chunks.size(); ++id)
    if (plan.is_committed(ChunkId{id}) && !read[id]) return fmt::format("leaves out chunk {}", id);
  return has_loss ? "" : "does not wait for the step's loss";
}

std::string wrong_with_segment(const Plan& plan, const Segment& segment) {
  const bool updates = segment.kind == SegmentKind::body ||
                       segment.kind == (plan.clipping ? SegmentKind::drain : SegmentKind::forward_backward);
  u32 commits = 0;
  for (u32 i = 0; i < segment.ops.size(); ++i) {
    const Op& op = segment.ops[i];
    const auto fault = [&](const std::string& what) {
      return fmt::format("{} op {} {}", name(segment.kind), i, what);
    };
    if (op.persists && !may_be_skipped(plan, segment, op)) return fault("may not be skipped, but is");
    if (op.kind != OpKind::commit) continue;
    ++commits;
    if (op.lane != LaneId{.kind = LaneKind::disk_write} || !op.persists ||
        op.steps_back != (plan.clipping ? 1 : 0))
      return fault("is not a commit of its step");
    if (const std::string wrong = wrong_with_operands_of(plan, segment, op); !wrong.empty())
      return fault(wrong);
  }
  const u32 expected = plan.versions > 1 && updates ? 1 : 0;
  if (commits == expected) return "";
  return fmt::format("{} makes {} commits, not {}", name(segment.kind), commits, expected);
}

}  // namespace

std::string wrong_with_commit(const Plan& plan, const ModelGraph& graph) {
  if (plan.versions < 1 || plan.versions > versions_max)
    return fmt::format("it keeps {} versions", plan.versions);
  if (plan.slots.size() != (plan.versions > 1 ? plan.chunks.size() : 0))
    return "it has slots for other chunks";
  if (plan.versions > 1)
    if (std::string wrong = wrong_with_slots(plan, graph); !wrong.empty()) return wrong;
  for (const Segment& segment : plan.segments) {
    if (std::string wrong = wrong_with_segment(plan, segment); !wrong.empty()) return wrong;
    if (plan.versions > 1)
      if (std::string wrong = wrong_with_frames(plan, segment); !wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace tidepool
