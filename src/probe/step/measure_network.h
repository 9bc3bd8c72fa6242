// measure_network() times messages between the nodes of a session.
#pragma once

#include "session/session.h"
#include "tidepool/machine.h"

namespace tidepool {

// Every node sends to the next and receives from the one before, all at once, as in a step.
// RETURNS: no network for one node.
// REQUIRES: at rest, before the state is written: it overwrites the host's arena. All nodes call it.
// Errors: the transport's.
Result<NetworkRates> measure_network(Session&);

}  // namespace tidepool
