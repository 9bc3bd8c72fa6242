#include "executor/shared/norm_layout.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/gradient/gradient.h"

namespace tidepool {
namespace {

constexpr u64 granule = norm_granule_elements, cells_of_granule = norm_granule_elements / norm_cell_elements;

// RETURNS: the part of the window that a gradient op finishes, from the op's first operand.
std::pair<u64, u64> elements_of(const Plan& plan, const Operand& o) {
  u64 elements = 0;
  for (u32 c = 0; c < o.count; ++c) elements += plan.chunks[index(o.first) + c].elements;
  return {plan.chunk(o.first).element_begin, elements};
}

}  // namespace

NormLayout::NormLayout(const Plan& plan, const ModelGraph& graph) : graph_(graph) {
  u64 next = 0;
  for (const Window& window : graph.windows) {
    first_partial_.push_back(next);
    if (window.trainable) next += div_up(window.elements, granule);
  }
  shared_.assign(next, none);
  const Segment& body = plan.segment(SegmentKind::body);
  for (const Op& op : body.ops) {
    if (op.kind != OpKind::gradient) continue;
    const auto [begin, elements] = elements_of(plan, body.operands_of(op)[0]);
    const Part part = part_of(op.window, begin, elements);
    for (u64 g = part.begin / granule; g * granule < part.end; ++g) {
      u32& shared = shared_[first_partial_[op.window] + g];
      if ((g >= part.whole_begin && g < part.whole_end) || shared != none) continue;
      shared = static_cast<u32>(cells_);
      cells_ += cells_of_granule;
    }
  }
}

NormLayout::Part NormLayout::part_of(u32 window, u64 begin, u64 elements) const {
  const u64 end = begin + elements, all = graph_.windows[window].elements;
  CHECK(begin % norm_cell_elements == 0 && end <= all, begin, end, all);
  const u64 first = div_up(begin, granule);
  return {begin, end, first, std::max(first, end == all ? div_up(end, granule) : end / granule)};
}

NormLayout::Runs NormLayout::runs_of(u32 window, u64 begin, u64 elements) const {
  const Part part = part_of(window, begin, elements);
  const u64 whole_begin = std::min(part.whole_begin * granule, part.end);
  const u64 whole_end = std::max(whole_begin, std::min(part.whole_end * granule, part.end));
  Runs runs;
  const auto add = [&](u64 from, u64 to, bool cells) {
    if (from >= to) return;
    const u64 partial = first_partial_[window] + from / granule;
    Run run{.begin = from, .elements = to - from, .first = partial, .cells = cells};
    if (cells) {
      CHECK(shared_[partial] != none && (to - 1) / granule == from / granule, window, from, to);
      run.first = shared_[partial] + from % granule / norm_cell_elements;
    }
    runs.run[runs.count++] = run;
  };
  add(part.begin, whole_begin, true);
  add(whole_begin, whole_end, false);
  add(whole_end, part.end, true);
  return runs;
}

}  // namespace tidepool
