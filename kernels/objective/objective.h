// Losses of objectives whose targets belong together: the head has made the statistics of every row, and the
// kernel makes the loss of each unit and the factors by which rows get their gradients.
#pragma once

#include "kernels/cross_entropy/cross_entropy.h"
#include "tidepool/objective.h"

namespace tidepool {

// Sums over the targets of one sequence.
struct SequenceSums {
  double logps = 0;         // log-probabilities; of a reward model, the logit of the only label
  double references = 0;    // log-probabilities of the reference model
  double old_logps = 0;     // log-probabilities at which they were sampled
  double prompt_logps = 0;  // of a prompt that is learned
  u32 places = 0;
  u32 targets = 0, prompt_targets = 0;
  u32 correct = 0;  // targets that have the largest logit
  // If the rule sums logits.
  double entropy = 0, logits = 0;
  double aligned = 0;  // log-probabilities, less the logarithm of the sum of the squares of all probabilities
};

struct UnitLosses {
  ObjectiveRule rule;
  u32 rows = 0;  // R
  const i32* targets = nullptr;
  // [R] number of places of the sequence that begins here; negative if it is not the first of its unit. 0:
  // none begins.
  const i32* sequences = nullptr;
  // [R] at a unit's first place: a pair's margin, or the number of places of the chosen prompt that are
  // learned; 1 if a judged answer is desirable, else -1; a rollout's advantage. Null: 0.
  const float* values = nullptr;
  const float* references = nullptr;      // [R] log-probability of the target by the reference; null: none
  const float* old_logps = nullptr;       // [R] log-probability at which the target was sampled; null: none
  const RowLoss* losses = nullptr;        // [R] after cross_entropy_loss()
  const LogitSums* logit_sums = nullptr;  // [R] of whole rows; null: none
  u32 columns = 1;                        // of logits
  double weight = 1;                      // of a unit's loss: 1 / targets of the step
  // Scratch and results, at the places where sequences and units begin.
  SequenceSums* of_sequences = nullptr;  // [R]
  Sums* of_units = nullptr;              // [R]
  RowFactors* factors = nullptr;         // [R]; null: sums alone
  Sums* sums = nullptr;                  // added to, in the order of units
};
void unit_losses_cpu(const UnitLosses&);

}  // namespace tidepool
