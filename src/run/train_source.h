// TrainSource gives the executor batches from the data and settings from the config.
#pragma once

#include "data/batches/batch_source.h"
#include "executor/shared/step_source.h"
#include "run/learning_rate.h"

namespace tidepool {

// Loss scaling settings of an fp16 run.
LossScaling loss_scaling(const TrainConfig&);

class TrainSource final : public StepSource {
 public:
  struct Parts {
    const BatchSource& batches;
    const TrainConfig& train;
    LearningRate learning_rate;
    u32 evaluation_micro_batches = 1;  // micro-batches of one evaluation segment
    u64 evaluation_batches = 0;        // micro-batches of one whole evaluation
  };
  explicit TrainSource(Parts parts) : parts_(std::move(parts)) {}

  // Evaluation segments are numbered from 0: segment n runs validation batches n * k ... n * k + k - 1.
  // Batches beyond the last are empty, so the number of sweeps changes no loss.
  Result<void> load_batch(const BatchRequest&, const BatchArrays&) override;
  StepSettings settings(u64 step) const override;
  u32 empty_micro_batches(u64 step) const override { return parts_.batches.empty_micro_batches(step); }

  double learning_rate(u64 step) const { return parts_.learning_rate(step); }

 private:
  const Parts parts_;
};

}  // namespace tidepool
