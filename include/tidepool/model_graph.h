// The model as the planner sees it: blocks in order, the windows they read, and what they cost.
#pragma once

#include <string>
#include <vector>

#include "base/types.h"
#include "tidepool/chunk.h"
#include "tidepool/kernel_cost.h"
#include "tidepool/lora.h"
#include "tidepool/model_config.h"

namespace tidepool {

enum class Init : u8 { normal, zeros, ones, uniform };

struct Tensor {
  std::string name;        // Hugging Face name, "h.0.attn.c_attn.weight"
  std::vector<u64> shape;  // row-major, as in the file: GPT-2 matrices are [in, out], the others' [out, in]
  // Elements from the window's start: a multiple of 64, but for what a product reads together with the tensor
  // before.
  u64 window_offset = 0;
  u64 elements = 0;
  bool weight_decay = false;  // matrices and embeddings; not biases and norms
  Init init = Init::zeros;
  double init_std = 0.0;    // of Init::normal
  double init_bound = 0.0;  // of Init::uniform: -bound to bound

  bool operator==(const Tensor&) const = default;
};

// Parameters that land on the device side by side, cut into chunk sets.
struct Window {
  std::string name;
  std::vector<Tensor> tensors;
  u64 elements = 0;    // padded to cut_alignment_elements; padding is zero and stays zero
  u64 parameters = 0;  // without padding
  // Of one that is not there are parameters only: no gradient, no moments, no master, no update; its homes
  // are never written to after a run has begun.
  bool trainable = true;
  bool adapter = false;  // its tensors come from an adapter's file and go there, not the model's

  bool operator==(const Window&) const = default;
};

enum class BlockKind : u8 { embedding, layer, head };

struct Block {
  BlockKind kind{};
  std::string name;  // "embedding", "h.0" or "layers.0", "head"
  u32 layer = none;
  std::vector<u32> windows;  // read by forward and backward, in the order block code expects
  Bytes kept{};              // inside of one micro-batch, if it is kept rather than recomputed
  Bytes forward_workspace{};
  Bytes backward_workspace{};  // with recompute; without it is never more
  // Of one micro-batch, in order. Flops are their sums.
  std::vector<KernelCost> forward_kernels;
  std::vector<KernelCost> backward_kernels;   // without recompute
  std::vector<KernelCost> recompute_kernels;  // what backward adds where the inside was not kept
  u64 forward_flops = 0;
  u64 backward_flops = 0;
  u64 recompute_flops = 0;

  bool operator==(const Block&) const = default;
};

// Every micro-batch has this shape; the last partial batch is padded with ignored targets.
struct BatchShape {
  u32 sequences = 1;  // B
  u32 tokens = 0;     // T, per sequence
  // A sequence may hold several documents, between which attention does not look and after each of which
  // positions begin anew. Then a batch has a third array, and every layer reads it.
  bool packed = false;

  u64 rows() const { return u64{sequences} * tokens; }
  bool operator==(const BatchShape&) const = default;
};

struct ModelGraph {
  ModelConfig config;
  LoraConfig lora;
  Precision precision = Precision::fp32;  // of parameters
  Precision activations =
      Precision::fp32;  // and their gradients; 16 bits where the device's matrix units want it
  BatchShape batch;
  std::vector<Window> windows;
  std::vector<Block> blocks;  // embedding, layers, head
  Bytes boundary{};           // one micro-batch's activation between blocks: [B, T, H]
  // i32 [B, T] each: tokens, targets, and of packed documents `starts`: where in its sequence each token's
  // document begins.
  Bytes batch_bytes{};
  u64 parameters = 0;  // tied tensors counted once, no padding
  // 6 N + 12 L H Q T, recompute not counted; of parameters that are not trained 4: their own gradient is not
  // made. N without an embedding that is only looked up (untied).
  u64 flops_per_token = 0;

  bool operator==(const ModelGraph&) const = default;
};

// Arrays of a batch, each i32 [B, T].
inline u32 batch_arrays(const BatchShape& batch) { return batch.packed ? 3 : 2; }

// Whether the block's ops take the batch: tokens, targets, or where documents begin.
inline bool reads_batch(const ModelGraph& graph, const Block& block) {
  return block.kind != BlockKind::layer || graph.batch.packed;
}

// Whether a step changes any window. A model of which nothing is trained is planned for its forward alone: of
// its state there are only parameters.
inline bool trains(const ModelGraph& graph) {
  for (const Window& window : graph.windows)
    if (window.trainable) return true;
  return graph.windows.empty();
}

inline u64 trained_parameters(const ModelGraph& graph) {
  u64 sum = 0;
  for (const Window& window : graph.windows) sum += window.trainable ? window.parameters : 0;
  return sum;
}

inline bool trains(const ModelGraph& graph, const Block& block) {
  for (const u32 window : block.windows)
    if (graph.windows[window].trainable) return true;
  return false;
}

// A step's backward ends here: below, nothing is trained. Where nothing is at all, the head.
inline u32 last_backward_block(const ModelGraph& graph) {
  u32 block = 0;
  while (block + 1 < graph.blocks.size() && !trains(graph, graph.blocks[block])) ++block;
  return block;
}

}  // namespace tidepool
