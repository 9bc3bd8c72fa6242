// Forward and backward of a block, written once against kernels.h. Executors make one call per op. The calls
// allocate nothing, and only the kernels synchronise.
#pragma once

#include <span>

#include "base/result.h"
#include "kernels/kernels.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// BlockContext names the block and the micro-batch, and holds the keys of random bits. Random bits depend on
// these keys alone, so recompute and any placement give the same bits.
struct BlockContext {
  Kernels& kernels;
  const ModelGraph& graph;
  u32 block = 0;
  u64 seed = 0;
  u64 step = 0;
  u32 micro_batch = 0;    // number within the whole step
  u32 piece = 0;          // streams begin with its first row, and the batch's arrays with the micro-batch's
  bool training = true;   // false: no dropout
  RowTile tile;           // rows that the call concerns; arrays begin with its first
  u32 slice_columns = 0;  // tokens of the vocabulary per slice of logits; 0: vocabulary_slice
};

// Streams between the blocks of a layer with experts. Null in all other blocks, and if the block does not use
// them.
struct ExpertStreams {
  Values post_attention;             // [B, T, H]
  Values normed;                     // [B, T, H]
  std::byte* routes = nullptr;       // RoutesLayout
  float* sum = nullptr;              // [B, T, H]
  std::byte* router_sums = nullptr;  // RouterSumsLayout
  float* normed_grad = nullptr;      // [B, T, H]
  float* routes_grad = nullptr;      // [B, T, k]
  Values branches;                   // [2, B, T, H]: outputs of the dense MLP, normalised, and of the experts
  Values branches_grad;              // [2, B, T, H]
};

// HeadForward holds the outputs of the head's forward. Pointers are to memory that the kernels can access.
struct HeadForward {
  Sums* sums = nullptr;      // over the micro-batch's targets; added to
  float* outputs = nullptr;  // with `sums`: [R, ObjectiveRule::outputs()] of each target, or null
  float* logits = nullptr;   // generation only: [head_rows] of row logits_row, or null
  u32 logits_row = 0;
};

struct BlockForward {
  std::span<const std::byte* const> windows;  // by Block::windows; param precision
  BatchView batch;                            // arrays_read()
  ConstValues input;                          // [B, T, H]; embedding and experts have none
  Values output;                              // [B, T, H]; of a layer's last block; the head has none
  Values layer_inputs;                        // [B, T, layers, P], in models that have them
  Values shared_keys;  // [B, T, 2 NKV D]: k and v that a layer gives to others or reads of another
  ExpertStreams experts;
  std::byte* kept = nullptr;       // Block::kept bytes, or null: recompute
  std::byte* past = nullptr;       // Block::past bytes, with those of earlier pieces
  std::byte* workspace = nullptr;  // Block::forward_workspace bytes
  HeadForward head;
};
void block_forward(const BlockContext&, const BlockForward&);

// The objective in backward: of the head, and of a router, whose losses are a part of it.
struct ObjectiveBackward {
  Sums* sums = nullptr;               // head; added to
  double inverse_targets = 1.0;       // 1 / targets that count in the whole step; head
  const float* loss_scale = nullptr;  // factor on all gradients, in the kernels' memory; null: 1
  u32 micro_batches = 1;              // of the step that hold tokens; router
  // Models with experts; head, of one piece of a micro-batch. Added to; null: not wanted.
  RouterLosses* router_losses = nullptr;
  i64* expert_tokens = nullptr;  // [layers with experts, E]
};

struct BlockBackward {
  std::span<const std::byte* const> windows;
  BatchView batch;
  ConstValues input;  // [B, T, H]; embedding and experts have none
  ConstValues layer_inputs;
  ConstValues shared_keys;  // of layers that read another's
  ExpertStreams experts;
  const std::byte* kept = nullptr;  // activations that forward saved, or null: recompute
  Values grad;                      // [B, T, H]: gradient of the output on entry, of the input on return.
                                    // The head only writes it
  Values layer_inputs_grad;  // [B, T, layers, P]: layers write their columns; `layer_inputs` overwrites it
                             // with the gradient of what the second embedding made
  Values shared_keys_grad;   // [B, T, 2 NKV D]: readers add to it, the first in backward writes it
  std::span<float* const>
      grad_accum;                  // by Block::windows; fp32, the window's layout; null for a frozen window
  bool accumulate = true;          // false: overwrite every element of the accumulators,
                                   // padding and unused tensors with zero included
  std::byte* past = nullptr;       // Block::past and Block::past_grad bytes
  std::byte* workspace = nullptr;  // Block::backward_workspace bytes
  ObjectiveBackward objective;
};
void block_backward(const BlockContext&, const BlockBackward&);
// Makes the past of a piece, after those of all earlier pieces, and before the backward of any.
// REQUIRES: the block has a past. Reads windows, batch, input, kept and workspace; there are no accumulators.
void block_recall(const BlockContext&, const BlockBackward&);

// Builds the blocks and windows of a model. GPT-2 has the windows "wte", "wpe", "h.0" ... , "ln_f"; other
// families have "embed_tokens", "layers.0" ..., "norm", and "lm_head" if the head is not tied. The head reads
// {final norm, matrix}. A layer with experts has the windows "layers.0", of its attention and router, and
// "layers.0.experts.0-7" ..., groups of `experts_per_group` experts (0: one group of all), which changes no
// bit of a result. If the experts are a branch beside a dense MLP, it also has "layers.0.end".
// Models whose layers have inputs of their own have the windows "embed_tokens_per_layer" and
// "per_layer_projection" after "embed_tokens". A tied matrix is the embedding's window, which then has two
// uses: 0 by the embedding, 1 by the head. Layers of a quantized model are packed, and nothing but adapters
// is trained. With LoRA each layer's first block reads a second window with its adapters, "layers.0.lora" or
// "h.0.lora" ..., and so does each group of experts that has adapters, "layers.0.experts.0-7.lora". These
// windows are the last in `windows`, layer by layer, and only they are trained.
// RETURNS: an error of ErrorKind::usage that names the config key.
Result<ModelGraph> build_model(const ModelConfig&, Precision, BatchShape,
                               Precision activations = Precision::fp32, const LoraConfig& = {},
                               u32 experts_per_group = 0, std::vector<UpdateRule> rules = {UpdateRule{}},
                               const ObjectiveRule& = {});

}  // namespace tidepool
