// A checkpoint says which optimizer trains each tensor, since names and shapes of state do not: two rules may
// have the same.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/trainer_state.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// RETURNS: TrainerState::optimizers for the graph.
std::string optimizers_text(const ModelGraph&);

// RETURNS: what differs between the optimizers of a checkpoint and of the graph, or "". A checkpoint of
// another model differs elsewhere, and is not compared.
std::string difference_of_optimizers(const TrainerState& then, const ModelGraph&);

}  // namespace tidepool
