// What a program that is built with CUDA calls at its start.
#pragma once

namespace tidepool {

// From then on measured_gpus() opens GPUs.
void register_cuda_measurements();

}  // namespace tidepool
