// init_weights() makes random initial weights: each element from a counter, so that weights do not depend on
// chunks or threads.
#pragma once

#include <functional>

#include "tidepool/core_pool.h"
#include "tidepool/model_graph.h"
#include "tidepool/state_stream.h"

namespace tidepool {

// Writes param and master or master_low of every window as GPT-2 initialises them; moments become zero. With
// LoRA it writes the adapters only.
// `buffer`: elements are made in it piece by piece; at least 64 KiB. `progress`: share done, in [0, 1].
Result<void> init_weights(const ModelGraph&, u64 seed, StateWriter&, std::span<std::byte> buffer, CorePool&,
                          const std::function<void(double)>& progress);

// RETURNS: element `element` of tensor number `tensor` from a standard normal distribution (Box-Muller over a
// 64-bit mix of the counter: Steele and others, "Fast splittable pseudorandom number generators", 2014).
float normal_at(u64 seed, u64 tensor, u64 element);

}  // namespace tidepool
