// Token embedding, with or without position embedding.
#pragma once

#include "kernels/dropout/dropout.h"
#include "kernels/values.h"
#include "tidepool/core_pool.h"

namespace tidepool {

// out = dropout(scale wte[token] + wpe[position] + noise)
struct Embedding {
  u32 sequences = 0, tokens_per_sequence = 0, columns = 0;  // B, T, H
  const i32* tokens = nullptr;                              // [B, T]
  Param wte;                                                // [V, H]
  float scale = 1;
  Param wpe;   // [positions, H], or none
  Values out;  // [B, T, H]
  UniformNoise noise;
  Dropout dropout;
};
void embedding_cpu(const Embedding&, CorePool&);

// Rows of one token (and of one position) are summed separately, in row order, then added.
struct EmbeddingBackward {
  u32 sequences = 0, tokens_per_sequence = 0, columns = 0;
  u32 vocabulary = 0, positions = 0;
  const i32* tokens = nullptr;  // [B, T]
  ConstValues dout;             // [B, T, H], with dropout already applied
  float scale = 1;              // as in the forward
  float* dwte = nullptr;        // [V, H]
  float* dwpe = nullptr;        // [positions, H], or null
  bool accumulate = true;       // false: overwrite; rows of absent tokens become zero
  u64* order = nullptr;         // workspace, [B, T]
};
void embedding_backward_cpu(const EmbeddingBackward&, CorePool&);

}  // namespace tidepool
