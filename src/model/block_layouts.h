// Layouts of the `kept` and workspace frames of blocks. A layout made from a null base has only its size, for
// planning. A run makes the layout from the frame and checks the size again.
#pragma once

#include "kernels/kernels.h"
#include "model/adapters.h"
#include "model/norm.h"
#include "model/workspace_cutter.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// Logits are computed for this many tokens of the vocabulary at a time. A constant, so that budgets do not
// change numbers.
inline constexpr u32 vocabulary_slice = 8192;

// Elements from one row of a slice's logits to the next. Rounded up in 16 bits: cuBLASLt's fast kernels read
// whole vectors, and the last slice of a vocabulary may have any length. Rows of fp32 logits are packed.
constexpr u32 logits_stride(Precision activations, u32 columns) {
  constexpr u32 step = 64;
  return activations == Precision::fp32 ? columns : static_cast<u32>(round_up(columns, step));
}

enum class Inside : u8 { kept, recomputed };

struct EmbeddingBackwardWorkspace {
  EmbeddingBackwardWorkspace(const ModelGraph&, std::byte* base);
  u64* order;  // [R]
  Bytes bytes;
};

enum class Direction : u8 { forward, backward };

// True if targets are smoothed in training.
bool smooths_targets(const ObjectiveRule&);

struct HeadWorkspace {
  HeadWorkspace(const ModelGraph&, std::byte* base, Direction);
  Values norm;      // [R, H]
  Values logits;    // [R, logits_stride(min(V, vocabulary_slice))]
  RowLoss* losses;  // [R]
  // Objectives of units only, else null.
  SequenceSums* of_sequences = nullptr;  // [R]
  Sums* of_units = nullptr;              // [R]
  // Distillation only, else null: the model's logits of the teacher's tokens, and what the rows' losses are.
  float* of_teacher = nullptr;  // [R, top_k]
  double* of_rows = nullptr;    // [R]
  // Passes whose output are distributions only.
  TopToken* top = nullptr;          // [R, top_k]
  LogitSums* logit_sums = nullptr;  // [R]; if the rule sums logits; with label smoothing in backward
  RowFactors* factors = nullptr;    // [R]; objectives of units, distillation; backward only
  Values dnorm;                     // [R, H]; backward only
  NormScratch moments;              // moments of the final norm; backward only
  Bytes bytes;
};

}  // namespace tidepool
