// How long a run trains: a number of steps, or of epochs of its data.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "config/config.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// Steps in the place of train.max_steps: auto; else train.max_steps, which wins where both are said. As
// Hugging Face's trainer counts: epochs may be a fraction, steps are rounded up. ErrorKind::usage: too many.
Result<u64> steps_to_train(const TrainConfig&, u64 steps_per_epoch);

// The same in words, of a config as it was given: "450 steps are 6.34 epochs of 71 steps".
std::string train_length_text(const TrainConfig&, u64 steps_per_epoch);

// Steps of an epoch, told before a run without tokenizing or reading the data through; nothing if that would
// be needed, or if the data is not here.
std::optional<u64> steps_per_epoch_at_hand(const Config&, const ModelGraph&);

}  // namespace tidepool
