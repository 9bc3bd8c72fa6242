// init_weights() makes random initial weights: each element from a counter, so that weights do not depend on
// chunks or threads.
#pragma once

#include <functional>

#include "tidepool/core_pool.h"
#include "tidepool/model_graph.h"
#include "tidepool/state_stream.h"

namespace tidepool {

// Writes param and master or master_low of every window as GPT-2 initialises them; moments become zero. With
// LoRA it writes the adapters only. Elements are independent: each comes from a 64-bit mix of its counter
// (Steele and others, "Fast splittable pseudorandom number generators", 2014).
// `buffer`: elements are made in it piece by piece; at least 64 KiB. `progress`: share done, in [0, 1].
// `score_alone`: makes nothing but the score head of a model that is loaded.
Result<void> init_weights(const ModelGraph&, u64 seed, bool score_alone, StateWriter&,
                          std::span<std::byte> buffer, CorePool&,
                          const std::function<void(double)>& progress);

// RETURNS: the size of a buffer in which all workers are busy for longer than it takes to wake them: 128 KiB
// each, 4 MiB at most, beside the budgets and before the first step only.
Bytes init_buffer(const CorePool&);

}  // namespace tidepool
