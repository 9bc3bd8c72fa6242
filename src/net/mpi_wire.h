// MpiWire is the wire over MPI, through a module that is loaded when a launcher started the program.
#pragma once

#include <string>
#include <vector>

#include "net/launcher.h"
#include "net/wire.h"

namespace tidepool {

// Modules of the build: libtidepool_openmpi.so, libtidepool_mpich.so.
std::string module_file(MpiLibrary);

// RETURNS: the library that this launcher can connect; if that is unknown, the one whose module is there.
// Errors: ErrorKind::usage if no module is in `folder`, with the package to install.
Result<MpiLibrary> choose_library(const Launcher&, const std::string& folder);

// Loads the module from `folder` and starts MPI.
// REQUIRES: called once per process, on the thread that will use the wire.
// Errors: ErrorKind::usage if the module cannot be loaded, or if MPI's rank and size are not the launcher's.
Result<std::unique_ptr<Wire>> open_mpi_wire(const Launcher&, MpiLibrary, const std::string& folder);

}  // namespace tidepool
