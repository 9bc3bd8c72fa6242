// Makes a transport from a wire.
#pragma once

#include "net/transport.h"
#include "net/wire.h"

namespace tidepool {

// Opens the wire on the transport's thread, waits for all nodes and learns their hosts' names.
// `host`: this node's, for messages.
// Errors: the wire's; ErrorKind::interrupted if the nodes do not meet in time.
Result<std::unique_ptr<Transport>> create_wire_transport(OpenWire, const std::string& host,
                                                         const TransportOptions&);

}  // namespace tidepool
