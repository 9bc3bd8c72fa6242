#include "executor/shared/update_index.h"

#include <algorithm>

#include "base/check.h"
#include "optimizers/optimizer.h"

namespace tidepool {
namespace {

// Cuts a window's tensors into runs of equal decay. Padding decays too: zero stays zero.
std::vector<DecaySegment> runs_of(const Window& window, const Chunk& chunk) {
  std::vector<DecaySegment> runs;
  const u64 begin = chunk.element_begin, end = begin + chunk.elements;
  const auto add = [&](u64 from, u64 to, bool decay) {
    from = std::max(from, begin) - begin;
    to = std::min(to, end);
    if (to <= begin + from) return;
    to -= begin;
    if (!runs.empty() && runs.back().decay == decay) {
      runs.back().end = to;
    } else {
      runs.push_back({from, to, decay});
    }
  };
  for (u32 t = 0; t < window.tensors.size(); ++t) {
    const bool last = t + 1 == window.tensors.size();
    add(window.tensors[t].window_offset, last ? window.elements : window.tensors[t + 1].window_offset,
        window.tensors[t].weight_decay);
  }
  CHECK(!runs.empty() && runs.front().begin == 0 && runs.back().end == chunk.elements, chunk.window,
        chunk.cut);
  return runs;
}

}  // namespace

UpdateIndex::UpdateIndex(const Plan& plan, const ModelGraph& graph) : cuts_(graph.windows.size()) {
  for (const Chunk& chunk : plan.chunks) {
    if (chunk.kind != Kind::param) continue;
    const Window& window = graph.windows[chunk.window];
    auto& cuts = cuts_[chunk.window];
    if (cuts.size() <= chunk.cut) cuts.resize(chunk.cut + 1);
    cuts[chunk.cut].decay = runs_of(window, chunk);
    if (window.trainable && optimizer(graph.rules[chunk.rule].optim).of_tensors != nullptr)
      cuts[chunk.cut].tensors =
          update_tensors(window, chunk.element_begin, chunk.element_begin + chunk.elements);
  }
}

}  // namespace tidepool
