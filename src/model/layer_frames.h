// Frames of a layer, for every style: measure_layer gives their sizes when a model is built, and
// with_backward_frames cuts them when backward runs.
#pragma once

#include "base/check.h"
#include "model/block_calls.h"

namespace tidepool {

template <class LayerInside, class ForwardWorkspace, class BackwardWorkspace>
void measure_layer(Block& block, const ModelGraph& g) {
  block.kept = LayerInside(g, nullptr).bytes;
  block.forward_workspace = ForwardWorkspace(g, nullptr).bytes;
  block.backward_workspace = BackwardWorkspace(g, nullptr, Inside::recomputed).bytes;
}

// Calls fn(workspace, inside) for a layer's backward. A kept inside is read-only: backward overwrites values
// of the inside only if it has recomputed them.
template <class LayerInside, class BackwardWorkspace, class Fn>
void with_backward_frames(const BlockContext& c, const BlockBackward& b, Fn fn) {
  const BackwardWorkspace workspace(c.graph, b.workspace,
                                    b.kept != nullptr ? Inside::kept : Inside::recomputed);
  CHECK(workspace.bytes <= block_of(c).backward_workspace, workspace.bytes.value, c.block);
  auto* inside = b.kept != nullptr ? const_cast<std::byte*>(b.kept) : workspace.inside;
  fn(workspace, LayerInside(c.graph, inside));
}

}  // namespace tidepool
