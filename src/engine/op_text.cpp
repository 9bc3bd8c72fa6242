#include "engine/op_text.h"

#include <fmt/format.h>

namespace tidepool {

std::string describe(const Plan& plan, ChunkId id) {
  const Chunk& chunk = plan.chunk(id);
  std::string out(plan.state_slots.name(chunk.kind));
  if (chunk.window != none) out += fmt::format(" window {}", chunk.window);
  if (chunk.cut != none) out += fmt::format(" cut {}", chunk.cut);
  if (chunk.block != none) out += fmt::format(" block {}", chunk.block);
  if (chunk.instance != 0 || chunk.window == none) out += fmt::format(" #{}", chunk.instance);
  return out;
}

std::string describe(LaneId lane) {
  if (lane.device == host_device) return std::string(name(lane.kind));
  return fmt::format("device {} {}", lane.device, name(lane.kind));
}

std::string describe(const Plan& plan, const Segment& segment, const Op& op) {
  std::string out(name(op.kind));
  if (is_movement(op.kind) && !is_collective(op.kind) && op.operands_count > 0) {
    return out + " " + describe(plan, segment.operands_of(op)[0].first);
  }
  if (op.block != none) out += fmt::format(" block {}", op.block);
  if (op.window != none) out += fmt::format(" window {}", op.window);
  if (op.cut != none) out += fmt::format(" cut {}", op.cut);
  if (op.micro_batch != none) out += fmt::format(" micro-batch {}", op.micro_batch);
  return out;
}

}  // namespace tidepool
