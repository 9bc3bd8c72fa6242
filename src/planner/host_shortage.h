// HostShortage says how many bytes the host lacks if devices hold nothing between uses. As long as it lacks
// some, what stays on a device spares the disk.
#pragma once

#include <vector>

#include "planner/residence.h"

namespace tidepool {

struct HostShortage {
  Bytes most{};           // at the position where most is missing; 0: nothing is missing anywhere
  i32 worst = 0;          // that position
  std::vector<i32> upto;  // [p]: positions before p where any is missing; one more entry than positions

  // Part of these positions that lies within the span: 0 to 1.
  double part_of(Span) const;
};

// Bytes of chunk sets in flight between disk and host: two being read, one updated, two being written, one to
// spare. `home`, by window: at home on devices.
Bytes sets_in_flight(const Layout&, const std::vector<bool>& home);

HostShortage host_shortage(const ResidenceInput&);

}  // namespace tidepool
