// Makes a transport from a wire.
#pragma once

#include "net/peer_process.h"
#include "net/transport.h"
#include "net/wire.h"

namespace tidepool {

// Opens the wire on the transport's thread, waits for all nodes and learns their hosts' names.
// `place`: of this node; its host's name is for messages, and nodes of one host watch each other's processes.
// Errors: the wire's; ErrorKind::interrupted if the nodes do not meet in time.
Result<std::unique_ptr<Transport>> create_wire_transport(OpenWire, const ProcessPlace& place,
                                                         const TransportOptions&);

}  // namespace tidepool
