// CHECK for .cu files, because nvcc cannot read what CHECK prints with. On the host.
#pragma once

namespace tidepool::cuda {

// Stops the process with `what` does not hold.
void require(bool holds, const char* what);

}  // namespace tidepool::cuda
