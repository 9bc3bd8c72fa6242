// Describes the other processes that use a GPU.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "machine/nvml.h"

namespace tidepool {

// RETURNS: a sentence such as " python (1234) has 12.3 GiB, process 5678 has some."; empty if no process is
// known. With pids of the host, this process is in the list as soon as it has a context on the GPU.
std::string describe_gpu_processes(const cudaDeviceProp&, Pids = pids_of_driver());

}  // namespace tidepool
