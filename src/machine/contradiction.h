// Finds rates of a machine that contradict each other, though each alone is plausible.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tidepool/machine.h"

namespace tidepool {

struct Contradiction {
  std::string_view section, key;  // the key most likely to be wrong
  std::string why;                // "50 GB/s is more than h2d + d2h (24 GB/s + 24 GB/s)"
};
// RETURNS: the first contradiction, if there is one.
// REQUIRES: omitted keys are filled in.
std::optional<Contradiction> find_contradiction(const Machine&);

// Adjusts measured rates just enough that find_contradiction finds nothing: samples taken beside other work
// may contradict each other.
void reconcile(Machine&);

}  // namespace tidepool
