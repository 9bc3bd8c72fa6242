// make_learning_rate() makes learning-rate schedules by their Hugging Face names.
#pragma once

#include <functional>

#include "config/config.h"

namespace tidepool {

// Learning rate of optimizer step `step`, from 1. As in transformers, the schedule's factor is taken
// at step - 1, so a run with warm-up starts from zero. A pure function.
using LearningRate = std::function<double(u64 step)>;

// Knows cosine, linear, constant, constant_with_warmup, cosine_with_min_lr and warmup_stable_decay.
// ErrorKind::usage for other names; the message lists the known names.
Result<LearningRate> make_learning_rate(const TrainConfig&);

}  // namespace tidepool
