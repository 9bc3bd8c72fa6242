// Learning-rate schedules by their Hugging Face names.
#pragma once

#include <functional>

#include "config/config.h"

namespace tidepool {

// Learning rate of optimizer step `step`, from 1. As in transformers, the schedule's factor is taken
// at step - 1, so a run with warm-up starts from zero. A pure function.
using LearningRate = std::function<double(u64 step)>;

// cosine, linear, constant, constant_with_warmup, cosine_with_min_lr, warmup_stable_decay.
// ErrorKind::usage names the known ones.
Result<LearningRate> make_learning_rate(const TrainConfig&);

}  // namespace tidepool
