// Rates of a machine that cannot all be true, though each alone could.
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
// The first. REQUIRES: keys that were left out are filled in.
std::optional<Contradiction> find_contradiction(const Machine&);

// For rates that were measured: beside other work samples may contradict each other. Moves those just so far
// that find_contradiction finds none.
void reconcile(Machine&);

}  // namespace tidepool
