// Which sequence stands in which row of which micro-batch of which step.
//
// Row r of micro-batch m is place m B + r of the step; a step takes A B places of its epoch in order.
// An epoch's last step is partial: its empty places have tokens 0 and targets -100, which add neither loss
// nor gradient, and the step's loss is divided by target_tokens(step), so every token weighs the same within
// a step. The next epoch starts with the next step. All of it is a pure function of the step: resuming needs
// the step number only.
#pragma once

#include <span>
#include <string>

#include "data/batches/dataset.h"
#include "tidepool/model_graph.h"

namespace tidepool {

class BatchSource {
 public:
  // REQUIRES: `data` outlives this; batch.tokens == data.sequence_length().
  BatchSource(const Dataset& data, BatchShape batch, u32 micro_batches);

  u64 steps_per_epoch() const { return steps_per_epoch_; }
  double epoch(u64 step) const;  // epochs done after `step`

  // Fills [B, T] arrays; steps count from 1. Any thread may call at any time.
  Result<void> load_batch(u64 step, u32 micro_batch, const BatchArrays&) const;
  u64 target_tokens(u64 step) const;  // never 0
  u64 tokens(u64 step) const;         // without padding: what is computed, learned or not

  // The held-out tail in order, the last batch padded the same way.
  u64 validation_batches() const;
  Result<void> load_validation_batch(u64 batch, const BatchArrays&) const;

  // Dataset::fingerprint() and sequences per step: what a step number means. step_fingerprint() takes it
  // apart.
  std::string fingerprint() const;

 private:
  u64 sequences_per_step() const { return u64{batch_.sequences} * micro_batches_; }
  u64 first_of_step(u64 step) const;  // global sequence index
  u64 sequences_of_step(u64 step) const;
  u64 sum_over(u64 step, u32 (Dataset::*of_sequence)(u64) const) const;

  const Dataset& data_;
  const BatchShape batch_;
  const u32 micro_batches_;
  const u64 steps_per_epoch_;
};

// BatchSource::fingerprint(), taken apart.
struct StepFingerprint {
  std::string data;
  u64 sequences_per_step = 0;  // 0: not told
};
StepFingerprint step_fingerprint(const std::string& of_batches);

}  // namespace tidepool
