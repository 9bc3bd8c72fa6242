#include "planner/commit_ops.h"

#include <algorithm>

namespace tidepool {
namespace {

Op op_of_commit(const Plan& plan, OpKind kind, LaneId lane) {
  return {.kind = kind, .lane = lane, .steps_back = static_cast<u8>(plan.clipping ? 1 : 0), .persists = true};
}

}  // namespace

bool is_in_commit(const Layout& layout, ChunkId id) {
  const Chunk& chunk = layout.chunk(id);
  return is_persistent(chunk) && layout.windows[chunk.window].trains && chunk.owner == layout.node;
}

std::vector<Frame> make_slots(const Layout& layout, Bytes& end) {
  std::vector<Frame> slots(layout.chunks.size());
  for (u32 id = 0; id < layout.chunks.size(); ++id) {
    if (!is_in_commit(layout, ChunkId{id})) continue;
    slots[id] = {.tier = Tier::disk, .offset = end.value, .bytes = layout.chunks[id].bytes};
    end += layout.chunks[id].bytes;
  }
  return slots;
}

std::vector<Arc> persist_buffers(const ResidenceInput& in, const DeviceTier& device) {
  constexpr u64 buffers = 2;
  std::vector<Arc> arcs;
  Bytes largest{};
  for (u32 id = 0; id < in.layout.chunks.size(); ++id) {
    if (!is_in_commit(in.layout, ChunkId{id}) || !device.home[in.layout.chunks[id].window]) continue;
    largest = std::max(largest, in.layout.chunks[id].bytes);
    if (arcs.size() < buffers)
      arcs.push_back({.first = ChunkId{id}, .span = {0, in.program.positions() - 1}, .permanent = true});
  }
  for (Arc& arc : arcs) arc.bytes = largest;
  return arcs;
}

std::vector<Persist> ordered_persists(const ResidenceInput& in, const DeviceTier& device,
                                      const HostTier& host) {
  const Layout& layout = in.layout;
  const Program& program = in.program;
  std::vector<Persist> out;
  if (host.versions < 2) return out;
  std::vector<u64> later;  // indices of those that may wait for the backward
  for (u32 id = 0; id < layout.chunks.size(); ++id) {
    const Chunk& chunk = layout.chunks[id];
    if (!is_in_commit(layout, ChunkId{id})) continue;
    if (!device.home[chunk.window] && host.home_arcs[id] == none) continue;
    const i32 update = program.update[chunk.window][chunk.cut];
    const bool dies = chunk.kind == Kind::param && layout.params_die(chunk.window);
    if (program.options.clipping && !dies) later.push_back(out.size());
    out.push_back({.chunk = ChunkId{id}, .when = {update, Phase::after}});
  }
  const i32 begin = program.first_backward, positions = program.positions() - begin;
  for (u64 i = 0; i < later.size(); ++i) {
    const i64 at = static_cast<i64>(i) * positions / static_cast<i64>(later.size());
    out[later[i]].when = {begin + static_cast<i32>(at), Phase::after};
  }
  std::ranges::stable_sort(out, {}, &Persist::when);
  u32 through = 0;
  const u32 buffers = static_cast<u32>(host.persist_buffers.size());
  for (Persist& persist : out)
    if (device.home[layout.chunk(persist.chunk).window]) persist.buffer = through++ % buffers;
  return out;
}

Moment moment_of_commit(const Program& program, const std::vector<Persist>& persists) {
  const bool early = program.options.clipping && persists.empty();
  return {early ? program.last_of_updates : program.positions() - 1, Phase::after};
}

void emit_persist(SegmentWriter& out, const Plan& plan, ChunkId id, const Frame& buffer) {
  const Chunk& chunk = plan.chunk(id);
  const auto move = [&](OpKind kind, LaneId lane, const Frame& from, const Frame& to) {
    Op op = op_of_commit(plan, kind, lane);
    op.window = chunk.window;
    op.cut = chunk.cut;
    out.begin(op);
    out.operand(id, 1, Access::read, from);
    out.operand(id, 1, Access::write, to);
    out.end();
  };
  const Frame& home = plan.homes[index(id)];
  const bool passes = buffer.bytes.value > 0;
  if (passes) move(OpKind::copy, {.device = home.device, .kind = LaneKind::d2h}, home, buffer);
  move(OpKind::write, {.kind = LaneKind::disk_write}, passes ? buffer : home, plan.slots[index(id)]);
}

void emit_commit(SegmentWriter& out, const Plan& plan, ChunkId scalars_id, const Frame& scalars) {
  out.begin(op_of_commit(plan, OpKind::commit, {.kind = LaneKind::disk_write}));
  const u32 chunks = static_cast<u32>(plan.chunks.size());
  for (u32 first = 0; first < chunks;) {
    u32 end = first;
    Frame frame = plan.slots[first];
    for (; end < chunks && plan.is_committed(ChunkId{end}); ++end)
      frame.bytes = Bytes{plan.slots[end].end() - frame.offset};
    if (end > first) out.operand(ChunkId{first}, end - first, Access::read, frame);
    first = end + 1;
  }
  if (!plan.clipping) out.operand(scalars_id, 1, Access::read, scalars);
  out.end();
}

}  // namespace tidepool
