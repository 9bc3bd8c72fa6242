// BatchSource maps steps to sequences: which sequence is in which row of which micro-batch of which step.
//
// Row r of micro-batch m is place m B + r of the step. A step takes the next A B places of its epoch. The
// last step of an epoch is partial: its empty places have token 0 and padding_target, which add neither loss
// nor gradient. The step's loss is divided by target_tokens(step), so every token weighs the same within a
// step. The next epoch starts with the next step. Everything is a pure function of the step, so resuming
// needs only the step number.
#pragma once

#include <span>
#include <string>

#include "data/batches/dataset.h"
#include "tidepool/model_graph.h"

namespace tidepool {

class BatchSource {
 public:
  // `reference`: identity of the model whose log-probabilities batches have; empty: none.
  // REQUIRES: `data` outlives this; batch.tokens == data.sequence_length().
  BatchSource(const Dataset& data, BatchShape batch, u32 micro_batches, std::string reference = "");

  u64 steps_per_epoch() const { return steps_per_epoch_; }
  double epoch(u64 step) const;  // epochs finished after `step`

  // Fills [B, T] arrays. Steps count from 1.
  // THREADS: any, at any time.
  Result<void> load_batch(u64 step, u32 micro_batch, const BatchArrays&) const;
  u64 target_tokens(u64 step) const;        // never 0
  u64 tokens(u64 step) const;               // without padding: computed tokens, learned or not
  u32 empty_micro_batches(u64 step) const;  // those without any token, which are the step's last

  // The held-out sequences in order. The last batch is padded as in training.
  u64 validation_batches() const;
  Result<void> load_validation_batch(u64 batch, const BatchArrays&) const;

  // Dataset::fingerprint(), the reference and the sequences per step: together they define what a step number
  // means.
  // step_fingerprint() parses it.
  std::string fingerprint() const;

 private:
  u64 sequences_per_step() const { return u64{batch_.sequences} * micro_batches_; }
  u64 first_of_step(u64 step) const;  // index over all epochs
  u64 sequences_of_step(u64 step) const;
  u64 sum_over(u64 step, u32 (Dataset::*of_sequence)(u64) const) const;

  const Dataset& data_;
  const BatchShape batch_;
  const u32 micro_batches_;
  const u64 steps_per_epoch_;
  const std::string reference_;
};

// The parts of a BatchSource::fingerprint().
struct StepFingerprint {
  std::string data;
  std::string reference;
  u64 sequences_per_step = 0;  // 0: not in the fingerprint
};
StepFingerprint step_fingerprint(const std::string& of_batches);

}  // namespace tidepool
