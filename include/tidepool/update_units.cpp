#include "tidepool/update_units.h"

#include "base/check.h"

namespace tidepool {

std::vector<UpdateUnit> update_units(const ModelGraph& graph, const Window& window) {
  std::vector<UpdateUnit> units = {{.elements = window.elements}};
  if (!window.trainable || window.tensors.empty()) return units;
  const u64 alignment = graph.state_slots.unit_alignment();
  units[0].rule = window.tensors[0].rule;
  for (const Tensor& tensor : window.tensors) {
    UpdateUnit& before = units.back();
    const u64 begin = tensor.window_offset;
    const bool whole = graph.rules[tensor.rule].unit == UnitKind::tensor && begin % alignment == 0;
    if (begin == before.begin || (tensor.rule == before.rule && !whole)) continue;
    CHECK(begin % alignment == 0, begin, alignment);
    before.elements = begin - before.begin;
    units.push_back({.begin = begin, .elements = window.elements - begin, .rule = tensor.rule});
  }
  return units;
}

}  // namespace tidepool
