// Connects this process with the other nodes that its launcher started.
#pragma once

#include "net/launcher.h"
#include "net/transport.h"

namespace tidepool {

// `module_folder`: where the MPI modules are; empty: beside the program.
// REQUIRES: called at most once per process; launcher.kind is not none.
// Errors: ErrorKind::usage if a module or package is missing; ErrorKind::interrupted if the nodes do not
// meet.
Result<std::unique_ptr<Transport>> connect_nodes(const Launcher&, const TransportOptions&,
                                                 const std::string& module_folder = {});

}  // namespace tidepool
