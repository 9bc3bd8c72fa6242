// CHECK for .cu files, on the host: nvcc cannot parse CHECK's printing code.
#pragma once

namespace tidepool::cuda {

// Stops the process, printing `what`, if `holds` is false.
void require(bool holds, const char* what);

}  // namespace tidepool::cuda
