#include "planner/verify/verify_operands.h"

#include <algorithm>
#include <vector>

namespace tidepool {
namespace {

// True if the content moves between exactly two places; an all_gather has more.
bool is_transfer(OpKind kind) { return is_movement(kind) && !is_collective(kind); }

// Only collectives touch several devices.
bool is_on_its_device(const Op& op, std::span<const Operand> operands) {
  if (is_collective(op.kind)) return op.lane.kind == LaneKind::comm;
  return std::all_of(operands.begin(), operands.end(), [&](const Operand& o) {
    return o.frame.tier != Tier::device || o.frame.device == op.lane.device;
  });
}

// A state chunk that the update does not read may be dead, so it must be of a kind that the kernel makes
// anew.
bool updates_what_it_must_find(const Plan& plan, std::span<const Operand> operands) {
  return std::all_of(operands.begin(), operands.end(), [&](const Operand& o) {
    const Kind kind = plan.chunk(o.first).kind;
    if (!is_persistent(kind)) return o.access == Access::read;
    return o.access == (made_by_update(kind, plan.precision) ? Access::write : Access::read_write);
  });
}

bool covers(const Operand& o, u32 id) { return id >= index(o.first) && id < index(o.first) + o.count; }

bool gathers_what_it_reads(std::span<const Operand> operands) {
  for (const Operand& to : operands) {
    if (to.access == Access::read) continue;
    if (to.access != Access::write) return false;
    for (u32 id = index(to.first); id < index(to.first) + to.count; ++id)
      if (std::none_of(operands.begin(), operands.end(), [&](const Operand& from) {
            return from.access == Access::read && covers(from, id) && from.version == to.version;
          }))
        return false;
  }
  return true;
}

// Checks that each sum is made from accumulators of the same cut, one from each device.
bool sums_all_devices(const Plan& plan, std::span<const Operand> operands) {
  std::vector<u32> sums;
  for (const Operand& o : operands) {
    if (o.access == Access::read_write) return false;
    for (u32 c = 0; c < o.count && o.access == Access::write; ++c) sums.push_back(index(o.first) + c);
  }
  for (const u32 sum : sums) {
    const Chunk& total = plan.chunks[sum];
    u32 parts = 0;
    for (const Operand& o : operands) {
      if (o.access != Access::read) continue;
      const Chunk& first = plan.chunks[index(o.first)];
      if (first.kind != Kind::grad_accum || first.window != total.window || first.cut > total.cut ||
          total.cut >= first.cut + o.count || o.frame.device != parts)
        return false;  // accumulators come in order of device
      ++parts;
    }
    if (parts != plan.replicas() || total.kind != Kind::grad_accum) return false;
  }
  return !sums.empty();
}

// Checks that a cut of this node is summed from a part of each node, in order of node.
bool sums_all_nodes(const Plan& plan, const ModelGraph& graph, const Op& op,
                    std::span<const Operand> operands) {
  u32 uses = 0;
  for (const Block& block : graph.blocks)
    uses += static_cast<u32>(std::ranges::count(block.windows, op.window));
  const u32 parts = uses * plan.nodes;
  const bool in_place = !plan.state_slots.has(Kind::grad);
  if (parts == 0 || operands.size() != parts + (in_place ? 1 : 2)) return false;
  for (u32 i = 0; i < parts; ++i) {
    const Operand& o = operands[i];
    const Chunk& part = plan.chunk(o.first);
    const bool own = i % plan.nodes == plan.node;
    const bool is_part = own ? part.kind == Kind::grad_accum && part.instance == i / plan.nodes
                             : part.kind == Kind::grad_part && part.instance == i;
    if (!is_part || part.window != op.window || part.cut != op.cut || part.owner != plan.node) return false;
    if (o.access != Access::read_write) return false;
  }
  if (in_place) return true;
  const Operand& sum = operands[parts];
  const Chunk& chunk = plan.chunk(sum.first);
  return sum.access == Access::write && chunk.kind == Kind::grad && chunk.window == op.window &&
         chunk.cut == op.cut;
}

// Checks that updates are of cuts that this node owns, that they alone are sent to others, with parts of
// gradients of others' cuts, and that what arrives comes from where it is made.
bool is_at_its_node(const Plan& plan, const Op& op, std::span<const Operand> operands) {
  if (is_update(op.kind))
    return std::all_of(operands.begin(), operands.end(), [&](const Operand& o) {
      return plan.chunk(o.first).window == none || plan.chunk(o.first).owner == plan.node;
    });
  const bool sends = op.kind == OpKind::send;
  if (!sends && op.kind != OpKind::receive) return !is_net(op.lane.kind);
  if (op.lane.kind != (sends ? LaneKind::net_send : LaneKind::net_receive)) return false;
  if (operands.size() != 1 || operands[0].count != 1 || operands[0].frame.tier != Tier::host) return false;
  if (operands[0].access != (sends ? Access::read : Access::write)) return false;
  if (op.peer >= plan.nodes || op.peer == plan.node) return false;
  const Chunk& chunk = plan.chunk(operands[0].first);
  const u32 from = sends ? plan.node : op.peer, to = sends ? op.peer : plan.node;
  switch (chunk.kind) {
    case Kind::param:
      return chunk.owner == from;
    case Kind::grad_accum:
      return sends && chunk.owner == to;
    case Kind::grad_part:
      return !sends && chunk.owner == to && chunk.instance % plan.nodes == from;
    case Kind::scalars:
      return chunk.instance == plan.devices + from;
    default:
      return false;
  }
}

bool is_movement_shape(const Op& op, std::span<const Operand> operands) {
  if (operands.size() != 2 || operands[0].first != operands[1].first || operands[0].count != 1) return false;
  const Tier from = operands[0].frame.tier, to = operands[1].frame.tier;
  switch (op.lane.kind) {
    case LaneKind::h2d:
      return from == Tier::host && to == Tier::device;
    case LaneKind::d2h:
      return from == Tier::device && to == Tier::host;
    case LaneKind::disk_read:
      return from == Tier::disk && to == Tier::host;
    case LaneKind::disk_write:
      return from == Tier::host && to == Tier::disk;
    default:
      return false;
  }
}

}  // namespace

std::string wrong_with_operands(const Plan& plan, const ModelGraph& graph, const Op& op,
                                std::span<const Operand> operands) {
  if (is_transfer(op.kind) && !is_movement_shape(op, operands))
    return "is on a lane that does not join its two tiers";
  if (!is_on_its_device(op, operands)) return "touches the memory of a device that is not its own";
  if (op.kind == OpKind::update && !updates_what_it_must_find(plan, operands))
    return "does not find all that it makes the new state from";
  if (op.kind == OpKind::all_gather && !gathers_what_it_reads(operands))
    return "hands on a chunk that it does not read";
  if (op.kind == OpKind::combine && !sums_all_nodes(plan, graph, op, operands))
    return "does not sum one part of each node, in their order";
  if (!is_at_its_node(plan, op, operands)) return "is not between the node that has the content and another";
  if (op.kind == OpKind::reduce_scatter && !sums_all_devices(plan, operands))
    return "does not sum one accumulator of each device";
  return "";
}

}  // namespace tidepool
