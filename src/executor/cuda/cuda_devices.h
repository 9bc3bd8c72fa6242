// Registers the CUDA backend; a program built with CUDA calls this at its start.
#pragma once

namespace tidepool {

// After this gpu_backend() drives GPUs.
void register_cuda();

}  // namespace tidepool
