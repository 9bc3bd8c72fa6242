// Who else uses a GPU.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "machine/nvml.h"

namespace tidepool {

// " python (1234) has 12.3 GiB, process 5678 has some.": a sentence, or empty where nobody is known. By pids
// of the host this process is among them as soon as it has a context there.
std::string describe_gpu_processes(const cudaDeviceProp&, Pids = pids_of_driver());

}  // namespace tidepool
