// connect_blocks() declares the streams of a model: what each block reads from, writes for and adds to other
// blocks.
#pragma once

#include "tidepool/model_graph.h"

namespace tidepool {

// Bytes of one micro-batch's streams. Models without experts have only `residual`.
struct StreamSizes {
  Bytes residual{};  // activation, post_attention, and the gradient of both: [B, T, H]
  Bytes normed{};
  Bytes routes{};
  Bytes routes_grad{};
  Bytes sum{};  // expert_sum and normed_grad: fp32 [B, T, H]
  Bytes router_sums{};
  Bytes branches{};                    // and their gradient: [2, B, T, H]
  std::array<Bytes, 2> shared_keys{};  // and their gradient, by ModelConfig::is_global: [B, T, 2 NKV D]
  Bytes layer_inputs{};                // and their gradient: [B, T, layers, P]
};

// Fills in ModelGraph::streams, and the streams of each block, from the blocks' kinds.
//
//   embedding   makes activation; a second one makes layer_inputs
//   layer_inputs  activation, layer_inputs -> layer_inputs, which every layer reads, too
//   layer       activation -> activation
//   attention   activation -> post_attention, normed, routes; adds to router_sums
//   experts     normed, routes -> expert_sum, group after group; the last group of a layer adds it to
//               post_attention and makes activation
//   layer_end   ends a layer whose experts are a branch: attention begins branches with the output of the
//               dense MLP, the last group completes them with its sum, and the end adds both to
//               post_attention and makes activation
//   head        activation -> loss
//
// Backward reads activation, normed, routes and router_sums. The last group of a layer, which is the first in
// backward, begins normed_grad and routes_grad; attention adds the router's share to normed_grad and reads
// both. A layer whose k and v others read writes shared_keys, and its backward reads the gradient that these
// have added up, the last one first. The last layer begins layer_inputs_grad, and every layer writes its own
// columns. A layer's end begins branches_grad, which its groups read in place of activation_grad, and
// attention. It reads branches again, and if it adds layer_inputs, post_attention too.
//
// REQUIRES: the first block is the embedding, the last the head; groups of experts follow an attention block,
// and a layer's end its groups.
void connect_blocks(ModelGraph&, const StreamSizes&);

}  // namespace tidepool
