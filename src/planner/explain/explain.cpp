#include "planner/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>

#include "planner/explain/explain_parts.h"

namespace tidepool {
namespace {

// RETURNS: 12 for "op:12" with the prefix "op:".
std::optional<u32> number_after(std::string_view what, std::string_view prefix) {
  if (!what.starts_with(prefix)) return std::nullopt;
  what.remove_prefix(prefix.size());
  u32 number = 0;
  const auto [end, error] = std::from_chars(what.data(), what.data() + what.size(), number);
  if (error == std::errc::result_out_of_range) return none;
  if (error != std::errc() || end != what.data() + what.size()) return std::nullopt;
  return number;
}

Error out_of_range(std::string_view what, std::string_view of, u64 count) {
  if (count == 0) return {ErrorKind::usage, fmt::format("--explain {}: {} has none", what, of)};
  return {ErrorKind::usage, fmt::format("--explain {}: {} has 0 to {}", what, of, count - 1)};
}

// Numbers of ops and places of chunks are those of one node's plan.
std::string whose_plan(const Plan& plan) {
  if (plan.nodes == 1) return {};
  return fmt::format("in the plan of node {}, one of {} nodes\n", plan.node, plan.nodes);
}

}  // namespace

std::string content_name(const ExplainInput& in, ChunkId first, u32 count) {
  const Chunk& c = in.plan.chunk(first);
  std::string text(in.plan.state_slots.name(c.kind));
  if (c.window != none) text += fmt::format(" of {}", in.graph.windows[c.window].name);
  if (c.block != none) text += fmt::format(" of {}", in.graph.blocks[c.block].name);
  if (c.window != none) {
    text += count > 1 ? fmt::format(" cuts {}-{}", c.cut, c.cut + count - 1) : fmt::format(" cut {}", c.cut);
  } else if (c.kind != Kind::workspace && c.kind != Kind::past && c.kind != Kind::scalars) {
    const bool of_piece = c.kind == Kind::kept || (c.stream != none && !in.graph.streams[c.stream].whole);
    const u32 pieces = of_piece ? in.plan.pieces : 1, replicas = in.plan.replicas();
    const u32 unit = c.instance / replicas;
    text += fmt::format(" m{}", unit / pieces * replicas + c.instance % replicas);
    if (pieces > 1) text += fmt::format(" piece {}", unit % pieces);
  }
  return text;
}

std::string op_name(const ExplainInput& in, const Segment& segment, u32 i) {
  const Op& op = segment.ops[i];
  std::string text = fmt::format("{} on {}", name(op.kind), name(op.lane.kind));
  if (in.plan.devices > 1 && op.lane.device != host_device)
    text += fmt::format(" of device {}", op.lane.device);
  if (op.kind == OpKind::send) text += fmt::format(" to node {}", op.peer);
  if (op.kind == OpKind::receive) text += fmt::format(" from node {}", op.peer);
  if (op.kind == OpKind::copy || op.kind == OpKind::read || op.kind == OpKind::write) {
    const Operand& o = segment.operands_of(op)[0];
    return text + ", " + content_name(in, o.first, o.count);
  }
  if (op.block != none) text += ", " + in.graph.blocks[op.block].name;
  if (op.window != none) text += ", " + in.graph.windows[op.window].name;
  if (op.cut != none) text += fmt::format(" cut {}", op.cut);
  if (op.micro_batch != none) text += fmt::format(", micro-batch {}", op.micro_batch);
  if (in.plan.pieces > 1 && is_of_piece(op.kind)) text += fmt::format(", piece {}", op.piece);
  if (op.steps_back != 0) text += ", for the step before";
  return text;
}

std::string memory_name(const Plan& plan, const Frame& frame) {
  std::string text(name(frame.tier));
  if (plan.devices > 1 && frame.tier == Tier::device) text += fmt::format(" {}", frame.device);
  return text;
}

std::string size_name(Bytes bytes) {
  constexpr std::pair<u64, const char*> units[] = {{gib, "GiB"}, {mib, "MiB"}, {kib, "KiB"}};
  for (const auto& [unit, text] : units)
    if (bytes.value >= unit)
      return fmt::format("{:.4g} {}", static_cast<double>(bytes.value) / static_cast<double>(unit), text);
  return fmt::format("{} B", bytes.value);
}

std::string op_number(const Life& life, u32 from, u32 ahead) {
  const u32 op = from + ahead;
  return op < life.ops() ? fmt::format("op {}", op) : fmt::format("op {} of the next step", op - life.ops());
}

std::vector<Waiting> waiting_at(const ExplainInput& in, const Life& life, const Frame& memory, u32 op) {
  std::map<std::tuple<Kind, u32, u32>, Waiting> groups;
  for (const TierStay& s : life.stays()) {
    if (!same_memory(s.frame, memory) || !life.covers(s, op)) continue;
    const auto& touches = life.touches(s.chunk);
    if (std::any_of(touches.begin(), touches.end(), [&](const Touch& t) { return t.op == op; })) continue;
    const auto next = life.next(s.chunk, op, &memory);
    if (!next) continue;
    const Chunk& chunk = in.plan.chunk(s.chunk);
    const auto [at, made] = groups.try_emplace({chunk.kind, chunk.window, chunk.block},
                                               Waiting{.first = s.chunk, .count = 0, .ahead = next->ahead});
    Waiting& group = at->second;
    ++group.count;
    group.bytes += s.frame.bytes;
    group.ahead = std::min(group.ahead, next->ahead);
  }
  std::vector<Waiting> out;
  for (const auto& [key, group] : groups) out.push_back(group);
  std::stable_sort(out.begin(), out.end(),
                   [](const Waiting& a, const Waiting& b) { return a.ahead < b.ahead; });
  return out;
}

Result<std::string> explain(const ExplainInput& in, std::string_view segment_name, std::string_view what) {
  const Segment* segment = nullptr;
  for (const Segment& s : in.plan.segments)
    if (name(s.kind) == segment_name) segment = &s;
  if (segment == nullptr)
    return Error{
        ErrorKind::usage,
        fmt::format("no segment '{}': use forward-backward, body, drain or evaluation", segment_name)};
  if (const auto op = number_after(what, "op:")) {
    if (*op >= segment->ops.size())
      return out_of_range(what, fmt::format("segment {}", segment_name), segment->ops.size());
    return whose_plan(in.plan) + explain_op(in, Life(in.plan, *segment), *op);
  }
  if (const auto chunk = number_after(what, "chunk:")) {
    if (*chunk >= in.plan.chunks.size()) return out_of_range(what, "the plan", in.plan.chunks.size());
    return whose_plan(in.plan) + explain_chunk(in, Life(in.plan, *segment), ChunkId{*chunk});
  }
  return Error{ErrorKind::usage,
               fmt::format("--explain {}: write op:N or chunk:N; 'plan --text' lists the ops", what)};
}

}  // namespace tidepool
