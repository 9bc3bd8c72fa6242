// When training ends before max_steps: as Hugging Face's EarlyStoppingCallback counts. A function of the
// evaluations so far, which a checkpoint holds, so a resumed run stops where the undisturbed one does.
#pragma once

#include <span>
#include <string>

#include "checkpoint/trainer_state.h"
#include "config/config.h"

namespace tidepool {

// Of the comparable evaluations those in a row, the last one included, that were not lower than the best
// before them by more than `threshold`. The first one counts as better. A loss that is not a number is not
// better.
u64 evaluations_without_gain(std::span<const EvalLoss>, double threshold);

// Why to stop, for people; empty: train on.
std::string why_stop_early(std::span<const EvalLoss>, const TrainConfig&);

// That the last evaluation does not compare with those before it, for people; empty: it does.
std::string why_best_begins_anew(std::span<const EvalLoss>, const TrainConfig&);

}  // namespace tidepool
