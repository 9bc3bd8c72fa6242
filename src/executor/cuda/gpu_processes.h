// Who else uses a GPU.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace tidepool {

// " python (1234) has 12.3 GiB, 5678 has some.": a sentence, or empty where nobody is known.
std::string describe_gpu_processes(const cudaDeviceProp&);

}  // namespace tidepool
