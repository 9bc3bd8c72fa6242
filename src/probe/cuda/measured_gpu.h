// register_cuda_measurements() is called at the start of a program built with CUDA.
#pragma once

namespace tidepool {

// After the call, measured_gpus() can open GPUs.
void register_cuda_measurements();

}  // namespace tidepool
