// to_text() prints the plan, one line per op: for golden files, diffs and `plan --text`.
#include <fmt/format.h>

#include <iterator>

#include "tidepool/plan.h"

namespace tidepool {
namespace {

using Out = std::back_insert_iterator<std::string>;

void print_frame(Out out, const Plan& plan, const Frame& f) {
  fmt::format_to(out, "{}", name(f.tier));
  if (plan.devices > 1 && f.tier == Tier::device) fmt::format_to(out, "{}", f.device);
  fmt::format_to(out, "[{:#x}+{:#x}]", f.offset, f.bytes.value);
}

void print_operand(Out out, const Plan& plan, const Operand& o) {
  const Chunk& chunk = plan.chunk(o.first);
  const char* arrow = o.access == Access::read ? "<" : o.access == Access::write ? ">" : "=";
  fmt::format_to(out, " {}{}", arrow, plan.state_slots.name(chunk.kind));
  if (chunk.window != none) fmt::format_to(out, ".w{}c{}", chunk.window, chunk.cut);
  if (chunk.block != none) fmt::format_to(out, ".b{}", chunk.block);
  if (chunk.window == none || chunk.kind == Kind::grad_accum || chunk.kind == Kind::grad_part)
    fmt::format_to(out, ".{}", chunk.instance);
  if (o.count > 1) fmt::format_to(out, "x{}", o.count);
  fmt::format_to(out, "@{}", o.version);
  print_frame(out, plan, o.frame);
}

void print_op(Out out, const Plan& plan, const Segment& segment, u32 i) {
  const Op& op = segment.ops[i];
  std::string lane(name(op.lane.kind));
  if (plan.devices > 1 && op.lane.device != host_device) lane += fmt::format(".{}", op.lane.device);
  fmt::format_to(out, "{:>6} {:<10} {:<10}", i, lane, name(op.kind));
  if (op.block != none) fmt::format_to(out, " b{}", op.block);
  if (op.micro_batch != none) fmt::format_to(out, " m{}", op.micro_batch);
  if (plan.pieces > 1 && is_of_piece(op.kind)) fmt::format_to(out, ".{}", op.piece);
  if (is_net(op.lane.kind)) fmt::format_to(out, " {} {}", op.kind == OpKind::send ? "to" : "from", op.peer);
  if (op.steps_back != 0) fmt::format_to(out, " step-{}", op.steps_back);
  if (op.persists) fmt::format_to(out, " persists");
  for (const Operand& o : segment.operands_of(op)) print_operand(out, plan, o);
  if (op.deps_count > 0) {
    fmt::format_to(out, " after");
    for (OpId dep : segment.deps_of(op)) fmt::format_to(out, " {}", index(dep));
  }
  fmt::format_to(out, "\n");
}

LinkKind link_of(LaneKind lane) {
  switch (lane) {
    case LaneKind::h2d:
      return LinkKind::h2d;
    case LaneKind::d2h:
      return LinkKind::d2h;
    case LaneKind::disk_read:
      return LinkKind::disk_read;
    default:
      return LinkKind::disk_write;
  }
}

// `persists`: of ops that only steps that are committed run, or of all others.
std::array<Bytes, link_count> transferred(const Plan& plan, SegmentKind kind, bool persists) {
  std::array<Bytes, link_count> sum{};
  const Segment& segment = plan.segment(kind);
  for (const Op& op : segment.ops)
    if (is_movement(op.kind) && !is_collective(op.kind) && op.persists == persists)
      sum[static_cast<u32>(link_of(op.lane.kind))] += segment.operands_of(op)[0].frame.bytes;
    else if (op.kind == OpKind::lookup && op.persists == persists)
      sum[static_cast<u32>(LinkKind::disk_read)] += lookup_disk_bytes(plan);
  return sum;
}

}  // namespace

// Explained at comm_bytes().
Bytes collective_bytes(const Plan& plan, std::span<const Operand> operands, OpKind kind) {
  Bytes sum{};
  for (const Operand& to : operands) {
    if (to.access == Access::read) continue;
    sum += kind == OpKind::all_gather ? to.frame.bytes : to.frame.bytes * (plan.replicas() - 1);
    for (const Operand& from : operands)  // a device's own cuts, if they rest in a shard, are not received
      if (kind == OpKind::all_gather && from.access == Access::read && from.frame.device == to.frame.device &&
          index(from.first) >= index(to.first) && index(from.first) < index(to.first) + to.count)
        sum -= from.frame.bytes;
  }
  return sum;
}

std::array<Bytes, link_count> link_bytes(const Plan& plan, SegmentKind kind) {
  return transferred(plan, kind, false);
}

std::array<Bytes, link_count> persisted_bytes(const Plan& plan, SegmentKind kind) {
  return transferred(plan, kind, true);
}

bool persists_resting_state(const Plan& plan) {
  return persisted_bytes(plan, SegmentKind::body)[static_cast<u32>(LinkKind::disk_write)].value > 0;
}

// An all_gather brings each device the cuts that others own. A reduce_scatter brings each device its own cuts
// from all others.
Bytes comm_bytes(const Plan& plan, SegmentKind kind) {
  Bytes sum{};
  const Segment& segment = plan.segment(kind);
  for (const Op& op : segment.ops)
    if (is_collective(op.kind)) sum += collective_bytes(plan, segment.operands_of(op), op.kind);
  return sum;
}

NetBytes net_bytes(const Plan& plan, SegmentKind kind) {
  NetBytes sum;
  const Segment& segment = plan.segment(kind);
  for (const Op& op : segment.ops) {
    if (op.kind == OpKind::send) sum.sent += segment.operands_of(op)[0].frame.bytes;
    if (op.kind == OpKind::receive) sum.received += segment.operands_of(op)[0].frame.bytes;
  }
  return sum;
}

std::string to_text(const Plan& plan) {
  std::string text;
  Out out(text);
  fmt::format_to(out,
                 "tidepool plan 1\nprecision {} micro_batches {} sweeps {} clipping {} chunk_elements {}",
                 name(plan.precision), plan.micro_batches, plan.sweeps,
                 plan.speculates ? "speculated"
                 : plan.clipping ? "on"
                                 : "off",
                 plan.chunk_elements);
  if (plan.devices > 1) fmt::format_to(out, " devices {}", plan.devices);
  if (plan.parallel != Parallel::data) fmt::format_to(out, " parallel {}", name(plan.parallel));
  if (plan.nodes > 1) fmt::format_to(out, " node {} of {}", plan.node, plan.nodes);
  if (plan.lookup.on()) fmt::format_to(out, " lookup w{} rows {}", plan.lookup.window, plan.lookup.rows_most);
  if (plan.versions > 1)
    fmt::format_to(out, " versions {} second_slot {}", plan.versions, plan.second_slot.value);
  fmt::format_to(out, "\n");
  for (u32 t = 0; t < tier_count; ++t)
    fmt::format_to(out, "tier {} budget {} peak {} working_set {}\n", name(static_cast<Tier>(t)),
                   plan.tiers[t].budget.value, plan.tiers[t].planned_peak.value,
                   plan.tiers[t].working_set.value);
  for (u32 id = 0; id < plan.homes.size(); ++id) {
    if (plan.homes[id].bytes.value == 0) continue;
    const Chunk& chunk = plan.chunks[id];
    fmt::format_to(out, "home {} {}.w{}c{} ", id, plan.state_slots.name(chunk.kind), chunk.window, chunk.cut);
    print_frame(out, plan, plan.homes[id]);
    fmt::format_to(out, "\n");
  }
  for (u32 id = 0; id < plan.slots.size(); ++id) {
    if (plan.slots[id].bytes.value == 0 || plan.slots[id] == plan.homes[id]) continue;
    const Chunk& chunk = plan.chunks[id];
    fmt::format_to(out, "slot {} {}.w{}c{} ", id, plan.state_slots.name(chunk.kind), chunk.window, chunk.cut);
    print_frame(out, plan, plan.slots[id]);
    fmt::format_to(out, "\n");
  }
  for (const Segment& segment : plan.segments) {
    fmt::format_to(out, "segment {} ops {}", name(segment.kind), segment.ops.size());
    const auto bytes = link_bytes(plan, segment.kind);
    for (u32 l = 0; l < link_count; ++l)
      fmt::format_to(out, " {} {}", name(static_cast<LinkKind>(l)), bytes[l].value);
    if (plan.devices > 1) fmt::format_to(out, " comm {}", comm_bytes(plan, segment.kind).value);
    if (const NetBytes net = net_bytes(plan, segment.kind); plan.nodes > 1)
      fmt::format_to(out, " net_send {} net_receive {}", net.sent.value, net.received.value);
    fmt::format_to(out, "\n");
    for (u32 i = 0; i < segment.ops.size(); ++i) print_op(out, plan, segment, i);
  }
  for (const Link& link : plan.links) {
    fmt::format_to(out, "link {} -> {}:", name(link.from), name(link.to));
    for (const LinkEdge& e : link.edges) fmt::format_to(out, " {}>{}", index(e.from), index(e.to));
    fmt::format_to(out, "\n");
  }
  return text;
}

}  // namespace tidepool
