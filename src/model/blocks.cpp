#include "model/blocks.h"

#include "base/check.h"
#include "model/block_calls.h"
#include "model/layer.h"
#include "model/mlps/experts/experts_block.h"
#include "model/mlps/layer_inputs/layer_inputs.h"
#include "model/packed_windows.h"

namespace tidepool {
namespace {

// Clears elements that no tensor covers: alignment between tensors, and the tail up to the cut.
void clear_padding(Kernels& kernels, const Window& window, float* gradients) {
  for (u64 i = 0; i < window.tensors.size(); ++i) {
    const u64 end = window.tensors[i].window_offset + window.tensors[i].elements;
    const u64 next = i + 1 < window.tensors.size() ? window.tensors[i + 1].window_offset : window.elements;
    if (next > end) kernels.zero(gradients + end, next - end);
  }
}

void run_forward(const BlockContext& context, const BlockForward& forward) {
  switch (block_of(context).kind) {
    case BlockKind::embedding:
      return context.block == 0 ? embedding_forward(context, forward)
                                : layer_inputs::embedding_forward(context, forward);
    case BlockKind::layer_inputs:
      return layer_inputs::product_forward(context, forward);
    case BlockKind::layer:
    case BlockKind::attention:
      return layer_forward(context, forward);
    case BlockKind::experts:
      return experts_forward(context, forward);
    case BlockKind::layer_end:
      return layer_end_forward(context, forward);
    case BlockKind::head:
      return head_forward(context, forward);
  }
}

void run_backward(const BlockContext& context, const BlockBackward& backward) {
  switch (block_of(context).kind) {
    case BlockKind::embedding:
      context.block == 0 ? embedding_backward(context, backward)
                         : layer_inputs::embedding_backward(context, backward);
      break;
    case BlockKind::layer_inputs:
      layer_inputs::product_backward(context, backward);
      break;
    case BlockKind::layer:
    case BlockKind::attention:
      layer_backward(context, backward);
      break;
    case BlockKind::experts:
      experts_backward(context, backward);
      break;
    case BlockKind::layer_end:
      layer_end_backward(context, backward);
      break;
    case BlockKind::head:
      head_backward(context, backward);
      break;
  }
}

// Calls run(op), where `op` reads unpacked windows.
template <class Op, class Run>
void with_unpacked(const BlockContext& context, Op op, Run run) {
  if (block_of(context).unpacked == Bytes{0}) return run(context, op);
  const UnpackedWindows windows = unpack_windows(context, op.windows, op.workspace);
  op.windows = windows.all();
  op.workspace += block_of(context).unpacked.value;
  run(context, op);
}

}  // namespace

void block_recall(const BlockContext& context, const BlockBackward& backward) {
  CHECK(block_of(context).past.value > 0, context.block);
  with_unpacked(context, backward, layer_recall);
}

void block_forward(const BlockContext& context, const BlockForward& forward) {
  CHECK(context.block < context.graph.blocks.size(), context.block);
  CHECK(forward.windows.size() == block_of(context).windows.size(), context.block, forward.windows.size());
  with_unpacked(context, forward, run_forward);
}

void block_backward(const BlockContext& context, const BlockBackward& backward) {
  CHECK(context.block < context.graph.blocks.size(), context.block);
  CHECK(backward.grad_accum.size() == block_of(context).windows.size(), context.block);
  with_unpacked(context, backward, run_backward);
  if (backward.accumulate) return;
  for (u32 i = 0; i < backward.grad_accum.size(); ++i) {
    if (backward.grad_accum[i] == nullptr) continue;
    clear_padding(context.kernels, window_of(context, i), backward.grad_accum[i]);
  }
}

}  // namespace tidepool
