#include "planner/verify/verify_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "tidepool/slot_range.h"

namespace tidepool {
namespace {

// Padding behind a tensor belongs to it.
u64 end_of(const Window& window, u64 tensor) {
  return tensor + 1 < window.tensors.size() ? window.tensors[tensor + 1].window_offset : window.elements;
}

std::string wrong_with_cut(const ModelGraph& graph, const Chunk& cut) {
  const Window& window = graph.windows[cut.window];
  const u64 end = cut.element_begin + cut.elements;
  for (u64 t = 0; t < window.tensors.size() && window.trainable; ++t) {
    const Tensor& tensor = window.tensors[t];
    if (tensor.window_offset >= end || end_of(window, t) <= cut.element_begin) continue;
    if (tensor.rule != cut.rule)
      return fmt::format("is of rule {}, and {} of another", cut.rule, tensor.name);
    if (graph.rules[cut.rule].unit == UnitKind::tensor &&
        (tensor.window_offset < cut.element_begin || end_of(window, t) > end))
      return fmt::format("divides {}", tensor.name);
  }
  return "";
}

// RETURNS: a fault if the chunk's elements are not those of its cut's parameters; else "".
std::string wrong_with_range(const StateSlots& slots, const ModelGraph& graph, const Chunk& cut,
                             const Chunk& chunk) {
  const SlotRange range = slot_range(graph.windows[cut.window], slots.axis(chunk.kind), cut.element_begin,
                                     cut.element_begin + cut.elements);
  if (range.begin == chunk.element_begin && range.elements == chunk.elements) return "";
  return fmt::format("of {} has elements [{}, {})", slots.name(chunk.kind), chunk.element_begin,
                     chunk.element_begin + chunk.elements);
}

constexpr std::array order = {OpKind::direction, OpKind::orthogonalize, OpKind::update};

// Counts the parts of a streamed update, in their order.
struct StreamedUpdate {
  u32 parts = 0;
  u32 gradient = 0;  // version that the next part finds
};

std::string wrong_with_part(const Plan& plan, const ModelGraph& graph, const Segment& segment, const Op& op,
                            StreamedUpdate& so_far) {
  const Operand& gradient = segment.operands_of(op)[0];
  const bool streamed = graph.rules[plan.chunk(gradient.first).rule].place == UpdatePlace::streamed;
  if (!streamed) return op.kind == OpKind::update ? "" : "is of a rule that is not streamed";
  if (so_far.parts == order.size() || op.kind != order[so_far.parts])
    return "is not the next part of its update";
  if (so_far.parts > 0 && gradient.version != so_far.gradient)
    return "does not find what the part before has made of the gradient";
  if (op.kind == OpKind::orthogonalize) {
    const Operand& workspace = segment.operands_of(op).back();
    if (op.lane.kind != LaneKind::compute || gradient.frame.tier != Tier::device) return "is not on a device";
    for (const MatrixCost& matrix : graph.matrix_costs)
      if (plan.chunk(workspace.first).kind != Kind::workspace || workspace.frame.bytes < matrix.workspace)
        return "has too small a workspace";
  }
  const Access access = op.kind == OpKind::update ? Access::read : Access::read_write;
  if (gradient.access != access) return "does not use the gradient as its part does";
  so_far = {so_far.parts + 1, gradient.version + 1};
  return "";
}

std::string wrong_with_parts(const Plan& plan, const ModelGraph& graph, const Segment& segment) {
  std::vector<StreamedUpdate> updates(plan.chunks.size());
  for (const Op& op : segment.ops) {
    if (!is_update(op.kind)) continue;
    StreamedUpdate& update = updates[index(segment.operands_of(op)[0].first)];
    if (const std::string wrong = wrong_with_part(plan, graph, segment, op, update); !wrong.empty())
      return fmt::format("{} of window {} cut {} {}", name(op.kind), op.window, op.cut, wrong);
  }
  for (u32 id = 0; id < updates.size(); ++id)
    if (updates[id].parts % order.size() != 0)
      return fmt::format("the update of window {} cut {} lacks a part", plan.chunks[id].window,
                         plan.chunks[id].cut);
  return "";
}

}  // namespace

std::string wrong_with_units(const Plan& plan, const ModelGraph& graph) {
  std::map<std::pair<u32, u32>, const Chunk*> cuts;  // by window and number
  for (const Chunk& chunk : plan.chunks)
    if (chunk.kind == Kind::param) cuts[{chunk.window, chunk.cut}] = &chunk;
  for (u32 id = 0; id < plan.chunks.size(); ++id) {
    const Chunk& chunk = plan.chunks[id];
    if (!is_persistent(chunk.kind)) continue;
    if (chunk.rule >= graph.rules.size()) return fmt::format("chunk {} is of rule {}", id, chunk.rule);
    const bool has = plan.state_slots.has(chunk.rule, chunk.kind);
    if (chunk.bytes.value != (has ? plan.state_slots.chunk_bytes(chunk.kind, chunk.elements) : 0))
      return fmt::format("chunk {} has {} bytes of {}", id, chunk.bytes.value,
                         plan.state_slots.name(chunk.kind));
    const Chunk& cut = *cuts.at({chunk.window, chunk.cut});
    std::string wrong = wrong_with_cut(graph, cut);
    if (wrong.empty()) wrong = wrong_with_range(plan.state_slots, graph, cut, chunk);
    if (!wrong.empty()) return fmt::format("cut {} of window {} {}", chunk.cut, chunk.window, wrong);
  }
  for (const Segment& segment : plan.segments)
    if (const std::string wrong = wrong_with_parts(plan, graph, segment); !wrong.empty()) return wrong;
  return "";
}

std::vector<u32> versions_before_sums(const Plan& plan, const Segment& segment) {
  u32 windows = 0;
  for (const Chunk& chunk : plan.chunks)
    if (chunk.window != none) windows = std::max(windows, chunk.window + 1);
  std::vector<u32> out(windows, 0);
  if (plan.state_slots.gradient() != Kind::grad_accum || !plan.clipping) return out;
  for (const Op& op : segment.ops)
    if (op.kind == OpKind::orthogonalize) out[op.window] = version_left(segment.operands_of(op)[0]);
  return out;
}

}  // namespace tidepool
