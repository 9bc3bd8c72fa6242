#include "planner/verify/verify_units.h"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace

std::string wrong_with_units(const Plan& plan, const ModelGraph& graph) {
  for (u32 id = 0; id < plan.chunks.size(); ++id) {
    const Chunk& chunk = plan.chunks[id];
    if (!is_persistent(chunk.kind)) continue;
    if (chunk.rule >= graph.rules.size()) return fmt::format("chunk {} is of rule {}", id, chunk.rule);
    const bool has = plan.state_slots.has(chunk.rule, chunk.kind);
    if (chunk.bytes.value != (has ? plan.state_slots.chunk_bytes(chunk.kind, chunk.elements) : 0))
      return fmt::format("chunk {} has {} bytes of {}", id, chunk.bytes.value,
                         plan.state_slots.name(chunk.kind));
    if (const std::string wrong = wrong_with_cut(graph, chunk); !wrong.empty())
      return fmt::format("cut {} of window {} {}", chunk.cut, chunk.window, wrong);
  }
  return "";
}

}  // namespace tidepool
