// What a program that is built with CUDA calls at its start.
#pragma once

namespace tidepool {

// From then on gpu_backend() drives GPUs.
void register_cuda();

}  // namespace tidepool
