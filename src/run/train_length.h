// train_length converts the length of a run to steps: from a number of steps, or of epochs of its data.
#pragma once

#include <optional>
#include <string>

#include "fit/job.h"

namespace tidepool {

// RETURNS: train.max_steps if it is set, even if train.num_train_epochs is set too; else the steps of
// train.num_train_epochs. As in Hugging Face's trainer, epochs may be a fraction and steps are rounded up.
// ErrorKind::usage if there are too many steps.
Result<u64> steps_to_train(const TrainConfig&, u64 steps_per_epoch);

// RETURNS: the length in words: "450 steps are 6.34 epochs of 71 steps".
// REQUIRES: the config is as the user gave it, with auto not replaced by steps.
std::string train_length_text(const TrainConfig&, u64 steps_per_epoch);

// RETURNS: steps per epoch, without tokenizing or reading through the data; nullopt if that would be needed,
// or if the data cannot be opened.
std::optional<u64> steps_per_epoch_at_hand(const Job&);

}  // namespace tidepool
