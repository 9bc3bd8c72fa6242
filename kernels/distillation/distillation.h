// Distillation: the divergence of a model's distributions from a teacher's, of which the most probable tokens
// are known. The head's first pass takes the model's logits of these tokens; from them follow the losses, and
// a gradient for each, which the second pass adds.
#pragma once

#include "kernels/cross_entropy/cross_entropy.h"
#include "tidepool/objective.h"

namespace tidepool {

// A teacher's distributions of the rows' targets, and the model's logits of the same tokens.
struct TeacherTokens {
  DivergenceRule rule;
  u32 rows = 0;                          // R
  const i32* targets = nullptr;          // [R]
  const float* distributions = nullptr;  // [R, DivergenceRule::numbers()]
  float* logits = nullptr;               // [R, top_k]; after divergence_losses(), gradients

  u64 numbers_of(u32 row) const { return u64{row} * rule.numbers(); }
  u64 logits_of(u32 row) const { return u64{row} * rule.top_k; }
};

// Takes the logits, as the loss sees them, of tokens that lie in the slice.
void take_teacher_tokens_cpu(const LogitsSlice&, const TeacherTokens&, CorePool&);

struct DivergenceLosses {
  TeacherTokens tokens;
  u32 columns = 0;                  // of whole logits
  float cap = 0;                    // of logits; 0: none
  const RowLoss* losses = nullptr;  // [R] after cross_entropy_loss()
  double weight = 1;                // of a target's gradient: 1 / targets of the step
  double* of_rows = nullptr;        // [R] scratch
  RowFactors* factors = nullptr;    // [R] for cross_entropy_gradient(); null: sums alone
  double* sum = nullptr;            // added to, in a fixed order
};
void divergence_losses_cpu(const DivergenceLosses&, CorePool&);

// Behind cross_entropy_gradient(): adds the gradients of the tokens that lie in the slice.
void add_teacher_gradients_cpu(const LogitsSlice&, const TeacherTokens&, const LossFactors&, CorePool&);

// The tokens with the largest logits of a row so far, the largest first; of equal ones the smaller token.
struct TopToken {
  float logit = 0;  // as the loss sees it
  i32 token = 0;
};
// Adds a slice's. `top`: [R, k]. REQUIRES: slices come in ascending order, and all of them together have k
// columns or more.
void select_top_cpu(const LogitsSlice&, TopToken* top, u32 k, CorePool&);
// After cross_entropy_loss(): `out`, [R, 2 k], gets the log-probabilities, and then the tokens; zeros in
// ignored rows.
void top_distributions(const RowLoss* losses, const i32* targets, const TopToken* top, u32 rows, u32 k,
                       float* out);

}  // namespace tidepool
