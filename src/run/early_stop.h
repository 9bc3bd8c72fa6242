// Early stopping decides when training ends before max_steps, by the rules of Hugging Face's
// EarlyStoppingCallback. It is a pure function of the evaluations so far. A checkpoint holds these, so a
// resumed run stops at the same step as an uninterrupted run.
#pragma once

#include <span>
#include <string>

#include "checkpoint/trainer_state.h"
#include "config/config.h"

namespace tidepool {

// Sets by which metric an evaluation is compared with others.
void set_ranking(const TrainConfig&, EvalLoss&);

// RETURNS: the number of consecutive comparable evaluations, up to and including the last, whose rank was not
// lower than the best before them by more than `threshold`. The first evaluation counts as better. NaN does
// not count as better.
u64 evaluations_without_gain(std::span<const EvalLoss>, double threshold);

// RETURNS: the reason to stop, for people; empty: continue training. Evaluations that were compared by
// another metric than the config's are no reason.
std::string why_stop_early(std::span<const EvalLoss>, const TrainConfig&);

// RETURNS: a note for people if the last evaluation does not compare with the earlier ones; empty: it
// compares.
std::string why_best_begins_anew(std::span<const EvalLoss>, const TrainConfig&);

}  // namespace tidepool
