// Layouts of the `kept` and workspace frames of a GPT-2 layer, used as block_layouts.h says.
#pragma once

#include "model/block_layouts.h"

namespace tidepool::gpt2 {

// Saved activations of a layer: the outputs of matrix products and of attention, which are expensive to
// recompute. Backward recomputes norms and GELU from them. 5 H + I values per row.
struct LayerInside {
  LayerInside(const ModelGraph&, std::byte* base);
  Values qkv;        // [R, 3H]
  Values attention;  // [R, H]
  float* lse;        // [B, NH, T]
  Values middle;     // [R, H], the residual stream between attention and MLP
  Values pre;        // [R, I], before GELU
  Bytes bytes;
};

// If the inside is not kept, `middle` is in the layer's output, which the last product overwrites, and
// attention's output replaces the norm's in `narrow`.
struct ForwardWorkspace {
  ForwardWorkspace(const ModelGraph&, std::byte* base);
  Values wide;    // [R, max(3H, I)]: qkv, then GELU's output
  Values narrow;  // [R, H]: norm, attention, norm
  AdapterScratch adapters;
  Bytes bytes;
};

struct BackwardWorkspace {
  BackwardWorkspace(const ModelGraph&, std::byte* base, Inside);
  Values wide;          // [R, max(3H, I)]: GELU's output, then the gradient of qkv
  Values norm;          // [R, H]: output of either norm
  Values narrow;        // [R, H]: gradients
  Values dropped;       // [R, H]: gradient after the backward of residual dropout; null without dropout
  NormScratch moments;  // for either norm
  AdapterScratch adapters;
  Values dpre;        // [R, I]; if the inside is recomputed, in place of pre
  std::byte* inside;  // LayerInside, if recomputed
  Bytes bytes;
};

}  // namespace tidepool::gpt2
