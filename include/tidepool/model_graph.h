// The model as the planner sees it: blocks in order, the windows they read, and what they cost.
#pragma once

#include <string>
#include <vector>

#include "tidepool/chunk.h"
#include "tidepool/kernel_cost.h"
#include "tidepool/types.h"

namespace tidepool {

// The fields of a Hugging Face GPT-2 config.json.
struct Gpt2Config {
  u32 vocab_size = 256;
  u32 n_positions = 1024;
  u32 n_embd = 768;
  u32 n_layer = 12;
  u32 n_head = 12;
  u32 n_inner = 0;  // 0: 4 * n_embd
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  double embd_pdrop = 0.0;
  double attn_pdrop = 0.0;
  double resid_pdrop = 0.0;

  u32 inner() const { return n_inner != 0 ? n_inner : 4 * n_embd; }
  u32 head_size() const { return n_embd / n_head; }
  bool operator==(const Gpt2Config&) const = default;
};

enum class Init : u8 { normal, zeros, ones };

struct Tensor {
  std::string name;          // Hugging Face name, "h.0.attn.c_attn.weight"
  std::vector<u64> shape;    // row-major, as in the file: GPT-2 matrices are [in, out]
  u64 window_offset = 0;     // elements from the window's start; a multiple of 64
  u64 elements = 0;
  bool weight_decay = false; // matrices and embeddings; not biases and norms
  Init init = Init::zeros;
  double init_std = 0.0;     // of Init::normal

  bool operator==(const Tensor&) const = default;
};

// Parameters that land on the device side by side, cut into chunk sets.
struct Window {
  std::string name;
  std::vector<Tensor> tensors;
  u64 elements = 0;      // padded to cut_alignment_elements; padding is zero and stays zero
  u64 parameters = 0;    // without padding
  bool trainable = true;

  bool operator==(const Window&) const = default;
};

enum class BlockKind : u8 { embedding, gpt2_layer, gpt2_head };

struct Block {
  BlockKind kind{};
  std::string name;           // "embedding", "h.0", "head"
  u32 layer = none;
  std::vector<u32> windows;   // read by forward and backward, in the order block code expects
  Bytes kept{};               // inside of one micro-batch, if it is kept rather than recomputed
  Bytes forward_workspace{};
  Bytes backward_workspace{}; // with recompute; without it is never more
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

  u64 rows() const { return u64{sequences} * tokens; }
  bool operator==(const BatchShape&) const = default;
};

struct ModelGraph {
  Gpt2Config config;
  Precision precision = Precision::fp32;    // of parameters
  Precision activations = Precision::fp32;  // and their gradients; 16 bits where the device's matrix units want it
  BatchShape batch;
  std::vector<Window> windows;
  std::vector<Block> blocks;   // embedding, layers, head
  Bytes boundary{};            // one micro-batch's activation between blocks: [B, T, H]
  Bytes batch_bytes{};         // tokens then targets, i32 [B, T] each
  u64 parameters = 0;          // tied tensors counted once, no padding
  u64 flops_per_token = 0;     // 6 N + 12 L H Q T, recompute not counted

  bool operator==(const ModelGraph&) const = default;
};

// Whether a step changes any window. A model of which nothing is trained is planned for its forward alone: of
// its state there are only parameters.
inline bool trains(const ModelGraph& graph) {
  for (const Window& window : graph.windows)
    if (window.trainable) return true;
  return graph.windows.empty();
}

}  // namespace tidepool
