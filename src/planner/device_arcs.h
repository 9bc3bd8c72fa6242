// add_arcs() turns a chain of touches into arcs of its devices, and into the copies that lead to and from
// them.
#pragma once

#include "planner/device_chains.h"
#include "planner/residence.h"

namespace tidepool {

// The arc of a run. Its span is turned onto the circle.
Arc arc_of(const Layout&, const Program&, const DeviceChain&, const ChainRun&);

// Adds arcs, arrivals and departures of the chain's runs.
void add_arcs(const Layout&, const Program&, const DeviceChain&, DeviceTier&);

}  // namespace tidepool
