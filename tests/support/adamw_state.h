// The state that training with AdamW keeps, for tests that name its slots.
#pragma once

#include <vector>

#include "optimizers/optimizer.h"

namespace tidepool::test {

inline StateSlots adamw_state(Precision precision) { return state_slots(precision, Optim::adamw_torch); }

inline Kind momentum(const StateSlots& slots) { return slots.optimizer_slot(0); }
inline Kind variance(const StateSlots& slots) { return slots.optimizer_slot(1); }

// RETURNS: the kinds that outlive a step, in the order of an update's operands.
inline std::vector<Kind> persistent_kinds(const StateSlots& slots) {
  std::vector<Kind> kinds = {Kind::param};
  slots.each([&](Kind slot) { kinds.push_back(slot); });
  return kinds;
}

}  // namespace tidepool::test
