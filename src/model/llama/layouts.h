// Layouts of the `kept` and workspace frames of a Llama-like layer; as block_layouts.h.
// Q is the width of all heads of queries, K of all keys' heads, A = Q + 2 K, I the width inside the MLP.
#pragma once

#include "model/block_layouts.h"

namespace tidepool::llama {

// What attention or the MLP adds to the residual stream, before its norm.
struct Branch {
  Values value;           // [R, H]
  float* rstd = nullptr;  // [R], of the norm; null: not wanted
};

// The inside that backward needs and that is dear to make again; norms, rotations and the gated unit are made
// again from it. H + Q + A + 2 I values per row, and 2 H more where branches are normalised.
struct LayerInside {
  LayerInside(const ModelGraph&, std::byte* base);
  Values qkv;        // [R, A]; turned already, but where q and k are normalised before: then neither
  Values attention;  // [R, Q]
  float* lse;        // [B, NH, T]
  Values middle;     // [R, H], the residual stream between attention and MLP
  Values gate_up;    // [R, 2I]
  // Null in styles that do not normalise branches:
  Branch attention_branch, mlp_branch;
  Bytes bytes;
};

// Without `kept` the middle of the residual stream lies in the output, which the last product overwrites, and
// attention's output replaces the norm's.
struct ForwardWorkspace {
  ForwardWorkspace(const ModelGraph&, std::byte* base);
  Values wide;    // [R, max(A, 2I)]: qkv, then gate and up
  Values narrow;  // [R, max(H, Q)]: norm, attention, norm, the MLP's branch
  Values inner;   // [R, I]: the gated unit's output
  AdapterScratch adapters;
  Bytes bytes;
};

struct BackwardWorkspace {
  BackwardWorkspace(const ModelGraph&, std::byte* base, Inside);
  Values
      wide;  // [R, max(I, A)]: the gradient behind the gated unit, then its output, then the gradient of qkv
  Values norm;    // [R, H]: output of either norm; the gradient of attention's branch between them
  Values narrow;  // [R, max(H, Q)]: gradients
  Values turned;  // [R, A]: qkv as attention saw it, where the inside holds it from before; null otherwise
  NormScratch moments;  // of either norm; its partials serve the norms of heads and branches too
  AdapterScratch adapters;
  Values dgate_up;    // [R, 2I]; where the inside is recomputed it takes the place of gate_up
  std::byte* inside;  // LayerInside, if recomputed
  Bytes bytes;
};

}  // namespace tidepool::llama
