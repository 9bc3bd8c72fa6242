#include "run/train_source.h"

#include <algorithm>

#include "data/batches/dataset.h"

namespace tidepool {

Result<void> TrainSource::load_batch(const BatchRequest& request, const BatchArrays& batch_arrays) {
  if (!request.evaluation) return parts_.batches.load_batch(request.step, request.micro_batch, batch_arrays);
  const u64 batch = request.step * parts_.evaluation_micro_batches + request.micro_batch;
  if (batch < parts_.evaluation_batches) return parts_.batches.load_validation_batch(batch, batch_arrays);
  make_empty(batch_arrays);
  return {};
}

LossScaling loss_scaling(const TrainConfig& t) {
  return {.growth_factor = static_cast<float>(t.growth_factor),
          .backoff_factor = static_cast<float>(t.backoff_factor),
          .min_scale = static_cast<float>(t.min_loss_scale),
          .growth_interval = static_cast<u32>(t.growth_interval)};
}

StepSettings TrainSource::settings(u64 step) const {
  const TrainConfig& t = parts_.train;
  return {.optimizer = {.learning_rate = parts_.learning_rate(step),
                        .beta1 = t.adam_beta1,
                        .beta2 = t.adam_beta2,
                        .epsilon = t.adam_epsilon,
                        .weight_decay = t.weight_decay,
                        .sgd_momentum = t.sgd_momentum,
                        .muon_momentum = t.muon_momentum,
                        .muon_nesterov = t.muon_nesterov},
          .max_grad_norm = t.max_grad_norm,
          .loss_scaling = t.precision == Precision::fp16 ? loss_scaling(t) : LossScaling{},
          .target_tokens = parts_.batches.target_tokens(step)};
}

}  // namespace tidepool
