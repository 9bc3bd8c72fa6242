// Forward and backward of a block, written once against kernels.h. Called by executors, one call
// per op. No allocation, no synchronisation beyond the kernels' own.
#pragma once

#include <span>

#include "base/result.h"
#include "kernels/kernels.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// Everything random is keyed by these, so recompute and any placement give the same bits.
struct BlockContext {
  Kernels& kernels;
  const ModelGraph& graph;
  u32 block = 0;
  u64 seed = 0;
  u64 step = 0;
  u32 micro_batch = 0;    // of the whole step
  bool training = true;   // false: no dropout
  u32 slice_columns = 0;  // of the vocabulary whose logits exist at a time; 0: vocabulary_slice
};

struct BlockForward {
  std::span<const std::byte* const> windows;  // by Block::windows; param precision
  const i32* tokens = nullptr;                // [B, T]; embedding and head
  const i32* targets = nullptr;               // [B, T], -100 ignored; head
  const i32* starts = nullptr;     // [B, T], of packed documents (BatchArrays::starts), or null; layers
  ConstValues input;               // [B, T, H]; not embedding
  Values output;                   // [B, T, H]; not head
  std::byte* kept = nullptr;       // Block::kept bytes, or null: recompute
  std::byte* workspace = nullptr;  // Block::forward_workspace bytes
  double* loss_sum = nullptr;      // head: summed over non-ignored targets, in row order; added to
  float* logits = nullptr;         // head, generation only: [V] of row logits_row, or null
  u32 logits_row = 0;
};
void block_forward(const BlockContext&, const BlockForward&);

struct BlockBackward {
  std::span<const std::byte* const> windows;
  const i32* tokens = nullptr;
  const i32* targets = nullptr;
  const i32* starts = nullptr;
  ConstValues input;                // [B, T, H]; not embedding
  const std::byte* kept = nullptr;  // what forward left, or null
  Values grad;                      // [B, T, H]: of the output on entry, of the input on return.
                                    // The head overwrites it
  std::span<float* const>
      grad_accum;          // by Block::windows; fp32, the window's layout; null of what is not trained
  bool accumulate = true;  // false: overwrite every element of the accumulators,
                           // padding and unused tensors with zero included
  std::byte* workspace = nullptr;     // Block::backward_workspace bytes
  double* loss_sum = nullptr;         // head
  double inverse_tokens = 1.0;        // 1 / non-ignored targets of the whole step; head
  const float* loss_scale = nullptr;  // head: all gradients are times this; in the kernels' memory, null: 1
};
void block_backward(const BlockContext&, const BlockBackward&);

// A model as blocks. Windows of GPT-2: "wte", "wpe", "h.0" ... , "ln_f"; of the others: "embed_tokens",
// "layers.0" ..., "norm", and "lm_head" if it is not tied. The head reads {final norm, matrix}; a tied matrix
// is the embedding's, which then has two uses, 0 by the embedding and 1 by the head. Errors are
// ErrorKind::usage and name the config's key. With LoRA each layer that has adapters reads a second window,
// "layers.0.lora" or "h.0.lora" ..., behind all others in `windows` and trained alone.
Result<ModelGraph> build_model(const ModelConfig&, Precision, BatchShape,
                               Precision activations = Precision::fp32, const LoraConfig& = {});

}  // namespace tidepool
