#include "planner/explain.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <optional>

namespace tidepool {
namespace {

using Out = std::back_insert_iterator<std::string>;

std::string name_of(const Plan& plan, const ModelGraph& graph, ChunkId id, u32 count) {
  const Chunk& c = plan.chunk(id);
  std::string text(name(c.kind));
  if (c.window != none) text += fmt::format(" of {}", graph.windows[c.window].name);
  if (c.block != none) text += fmt::format(" of {}", graph.blocks[c.block].name);
  if (c.window != none) text += count > 1 ? fmt::format(" ({} chunks)", count) : fmt::format(" cut {}", c.cut);
  return text;
}

std::string title(const Plan& plan, const ModelGraph& graph, const Segment& segment, u32 i) {
  const Op& op = segment.ops[i];
  std::string text = fmt::format("op {}: {} on {}", i, name(op.kind), name(op.lane.kind));
  if (plan.devices > 1 && op.lane.device != host_device) text += fmt::format(" of device {}", op.lane.device);
  if (op.kind == OpKind::copy || op.kind == OpKind::read || op.kind == OpKind::write) {
    const Operand& o = segment.operands_of(op)[0];
    return text + ", " + name_of(plan, graph, o.first, o.count);
  }
  if (op.block != none) text += ", " + graph.blocks[op.block].name;
  if (op.window != none) text += ", " + graph.windows[op.window].name;
  if (op.micro_batch != none) text += fmt::format(", micro-batch {}", op.micro_batch);
  return text;
}

// The next op of the segment that touches the chunk; none: not before it ends.
std::optional<u32> next_use(const Segment& segment, u32 after, ChunkId id) {
  for (u32 i = after + 1; i < segment.ops.size(); ++i)
    for (const Operand& o : segment.operands_of(segment.ops[i]))
      if (index(id) >= index(o.first) && index(id) < index(o.first) + o.count) return i;
  return std::nullopt;
}

void explain_operands(Out out, const Plan& plan, const ModelGraph& graph, const Segment& segment, u32 i) {
  for (const Operand& o : segment.operands_of(segment.ops[i])) {
    const char* verb = o.access == Access::read ? "reads" : o.access == Access::write ? "writes" : "updates";
    std::string place(name(o.frame.tier));
    if (plan.devices > 1 && o.frame.tier == Tier::device) place += fmt::format(" {}", o.frame.device);
    fmt::format_to(out, "  {} {} in {} bytes [{}, {})\n", verb, name_of(plan, graph, o.first, o.count), place,
                   o.frame.offset, o.frame.end());
  }
}

void explain_movement(Out out, const Plan& plan, const ModelGraph& graph, const Segment& segment, u32 i) {
  const ChunkId id = segment.operands_of(segment.ops[i])[0].first;
  const Frame& home = plan.homes[index(id)];
  if (home.bytes.value > 0)
    fmt::format_to(out, "  it rests on the {} between uses\n", name(home.tier));
  else
    fmt::format_to(out, "  it lives for one step and has no home\n");
  if (const auto next = next_use(segment, i, id))
    fmt::format_to(out, "  next used by {}, {} ops later\n", title(plan, graph, segment, *next), *next - i);
  else
    fmt::format_to(out, "  next used in the next step\n");
}

}  // namespace

Result<std::string> explain(const Plan& plan, const ModelGraph& graph, std::string_view segment_name,
                            std::string_view what) {
  const Segment* segment = nullptr;
  for (const Segment& s : plan.segments)
    if (name(s.kind) == segment_name) segment = &s;
  if (segment == nullptr)
    return Error{ErrorKind::usage, fmt::format("no segment '{}': use forward-backward, body, drain or evaluation",
                                               segment_name)};
  u32 i = none;
  if (what.starts_with("op:")) std::from_chars(what.data() + 3, what.data() + what.size(), i);
  if (i >= segment->ops.size())
    return Error{ErrorKind::usage, fmt::format("'{}' is not op:N with N below {}", what, segment->ops.size())};
  std::string text = title(plan, graph, *segment, i) + "\n";
  Out out(text);
  explain_operands(out, plan, graph, *segment, i);
  const OpKind kind = segment->ops[i].kind;
  if (kind == OpKind::copy || kind == OpKind::read || kind == OpKind::write)
    explain_movement(out, plan, graph, *segment, i);
  for (OpId dep : segment->deps_of(segment->ops[i]))
    fmt::format_to(out, "  waits for {}\n", title(plan, graph, *segment, index(dep)));
  return text;
}

}  // namespace tidepool
