// Layouts of the streams between the blocks of a layer with experts, and of the frames of a group of experts,
// used as block_layouts.h says. R rows of a tile, k experts per row, E experts, G experts in the group, I the
// width inside an expert, M = R min(k, G): rows that a group has at most.
#pragma once

#include "kernels/experts/expert_range.h"
#include "kernels/router/router.h"
#include "model/block_layouts.h"
#include "tidepool/connect_blocks.h"

namespace tidepool {

// A stream has those of a piece's tiles, one behind the other.
struct RoutesLayout {
  RoutesLayout(const ModelGraph&, std::byte* base);
  i32* experts;    // [R, k]
  float* weights;  // [R, k]
  Bytes bytes;
};

// Writes routes of a piece that give all experts as many tokens, for timing a group: sorting relies on valid
// routes.
void make_even_routes(const ModelGraph&, std::byte* piece);

// By layer with experts, in order.
struct RouterSumsLayout {
  RouterSumsLayout(const ModelGraph&, std::byte* base);
  i32* counts;            // [layers, E]
  double* probabilities;  // [layers, E]
  double* entropy;        // [layers]
  double* z;              // [layers]
  Bytes bytes;

  RouterSums of(u32 index, u32 experts) const;  // of the layer with this index among those with experts
};

StreamSizes stream_sizes(const ModelGraph&);

// RETURNS: the number of layers with experts before `layer`.
u32 expert_layer_index(const ModelConfig&, u32 layer);
RouterRule router_rule(const ModelConfig&);
// Activation of the experts.
GluGate expert_gate(const ModelConfig&);

// Rows of the group's experts: sorted again by forward and backward, which costs next to nothing.
struct SortedRows {
  SortedRows(const ModelGraph&, ExpertRange, WorkspaceCutter&);
  i32* offsets;  // [G + 1]
  i32* slots;    // [M]
  i32* places;   // [R, k]
};

// Scratch of the products of adapters beside experts, one adapter at a time.
struct GroupAdapterScratch {
  GroupAdapterScratch(const ModelGraph&, u32 layer, ExpertRange, WorkspaceCutter&);
  Values low;       // [M, largest r]: scale x A^T
  Values low_grad;  // [M, largest r]: scale dy B
};

// Saved activations of a group.
struct ExpertsInside {
  ExpertsInside(const ModelGraph&, ExpertRange, std::byte* base);
  Values gate_up;  // [M, 2I]; experts without a gate: [M, I], here and below
  Bytes bytes;
};

struct ExpertsForwardWorkspace {
  ExpertsForwardWorkspace(const ModelGraph&, u32 layer, ExpertRange, std::byte* base);
  SortedRows sorted;
  Values rows;     // [M, H]: the experts' input, then their output
  Values gate_up;  // [M, 2I], if the inside is not kept
  Values inner;    // [M, I]
  GroupAdapterScratch adapters;
  Bytes bytes;

 private:
  ExpertsForwardWorkspace(const ModelGraph&, u32 layer, ExpertRange, WorkspaceCutter);
};

struct ExpertsBackwardWorkspace {
  ExpertsBackwardWorkspace(const ModelGraph&, u32 layer, ExpertRange, std::byte* base);
  SortedRows sorted;
  Values rows;      // [M, H]: the experts' input
  Values dout;      // [M, H]: the gradient of the layer's output, then of the experts' input
  Values inner;     // [M, I]: gradient of the gated unit's output, then that output times its weight
  Values dgate_up;  // [M, 2I]
  Values gate_up;   // [M, 2I]: dgate_up, if the inside is recomputed, which its gradient overwrites
  GroupAdapterScratch adapters;
  Bytes bytes;

 private:
  ExpertsBackwardWorkspace(const ModelGraph&, u32 layer, ExpertRange, WorkspaceCutter);
};

}  // namespace tidepool
