// Layouts of the `kept` and workspace frames of a part of a layer, used as block_layouts.h says. Mixer
// and MLP run one after the other, so they share some buffers.
#pragma once

#include "model/block_layouts.h"
#include "model/layer_tensors.h"
#include "model/mlps/experts/router_call.h"

namespace tidepool {

// Columns inside an MLP. 0: the block has no MLP.
struct MlpWidths {
  u32 values = 0;      // outputs of its first product
  u32 inner = 0;       // inputs of its last product
  bool apart = false;  // forward needs a place for values besides that of inner
  u32 spare = 0;       // of BackwardBuffers::narrow, which a routed layer's backward has for scratch
};

// Buffers of forward that the layer gives to its norms and its MLP.
struct ForwardBuffers {
  Values norm;    // [R, H]: output of either norm; then a branch before its norm
  Values values;  // MlpForward::values if the inside is not kept, or none
  Values inner;   // MlpForward::inner
};
struct BackwardBuffers {
  Values norm;          // [R, H]: output of either norm
  Values narrow;        // [R, max(H, columns of the mixer's output, MlpWidths::spare)]: gradients
  Values inner;         // the MLP's inner values and their gradient
  Values dropped;       // [R, H]: gradient after the backward of residual dropout; none without dropout
  NormScratch moments;  // for all norms of the layer
};

// Branch is the output of mixer or MLP, before the branch norm.
struct Branch {
  Values value;           // [R, H]
  float* rstd = nullptr;  // [R], rstd of the branch norm; null: not stored
};

// Saved activations of a layer: values that are expensive to recompute. Backward recomputes norms, rotations
// and the MLP's inner values from them.
struct LayerInside {
  LayerInside(const ModelGraph&, u32 layer, LayerPart, std::byte* base);
  std::byte* mixer;       // the mixer's inside
  Values post_attention;  // [R, H], the residual stream between mixer and MLP, if the layer has both
  Values values;          // [R, MlpWidths::values]
  // None in styles that do not normalise branches, and without the mixer or MLP.
  Branch attention_branch, mlp_branch;
  Values before_inputs;  // [R, H]: residual stream before the layer's inputs, if it has some; as the next
  Values input_values;   // [R, 2 P]: gate's product, and inputs
  Branch inputs_branch;
  Bytes bytes;
};

// LayerPast is content that the tiles of a micro-batch hand to later tiles of their sequence, and its
// gradients, which backward alone has; nothing if micro-batches are not cut.
struct LayerPast {
  LayerPast(const ModelGraph&, u32 layer, LayerPart, std::byte* base);
  std::byte *values = nullptr, *grad = nullptr;
  u64 of_sequence = 0, grad_of_sequence = 0;  // bytes of a sequence, Mixer::past_bytes()
  Bytes bytes{}, grad_bytes{};

  std::byte* values_of(u32 sequence) const {
    return values == nullptr ? nullptr : values + sequence * of_sequence;
  }
  std::byte* grad_of(u32 sequence) const {
    return grad == nullptr ? nullptr : grad + sequence * grad_of_sequence;
  }
};

// Scratch of a layer's inputs; none if the layer has none.
struct InputsScratch {
  InputsScratch() = default;
  InputsScratch(const ModelGraph&, WorkspaceCutter&);
  Values values;  // [R, 2 P]: gate's product and inputs in forward, their gradient in backward
  Values inner;   // [R, P]
  Values narrow;  // [R, P]
};

// Without an inside, the residual stream after attention is in the layer's output, and the MLP adds to it.
struct LayerForwardFrame {
  LayerForwardFrame(const ModelGraph&, u32 layer, LayerPart, std::byte* base);
  ForwardBuffers buffers;  // of the mixer, whose frame comes first
  AdapterScratch adapters;
  RouterScratch router;  // layers with experts
  InputsScratch inputs;
  std::byte* inside = nullptr;  // LayerInside, if the mixer always wants one
  Bytes bytes;
};

struct LayerBackwardFrame {
  LayerBackwardFrame(const ModelGraph&, u32 layer, LayerPart, std::byte* base, Inside);
  BackwardBuffers buffers;
  AdapterScratch adapters;
  RouterScratch router;  // layers with experts
  InputsScratch inputs;
  Values dvalues;                // [R, MlpWidths::values]
  std::span<std::byte> scratch;  // attention's, which runs when dvalues is dead
  std::byte* inside = nullptr;   // LayerInside, if recomputed
  Bytes bytes;

 private:
  void take_in_place(const ModelGraph&, u32 layer, LayerPart, WorkspaceCutter&, Inside);
  void take_apart(const ModelGraph&, u32 layer, LayerPart, WorkspaceCutter&, Inside);
};

MlpWidths mlp_widths(const ModelGraph&, u32 layer);
MlpWidths mlp_widths(const ModelGraph&, u32 layer, LayerPart);
// Takes BackwardBuffers::dropped.
Values take_dropped(const ModelGraph&, WorkspaceCutter&);

}  // namespace tidepool
