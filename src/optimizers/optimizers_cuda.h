// Updates on a GPU, with the bits of the host's.
#pragma once

#include <cuda_runtime.h>

#include "optimizers/optimizer.h"

namespace tidepool {

// `segments` point to device memory, `scalars` are read when the kernel runs. Hashes are empty, because
// chunks with homes on disk are updated on the host. One for each rule:
using UpdateCudaFn = void(const UpdateChunk&, Precision, const UpdateScalars* scalars, cudaStream_t);
UpdateCudaFn adamw_cuda, lion_cuda, sgd_cuda, adamw_bf16_cuda, adamw_8bit_cuda, lion_bf16_cuda,
    lion_8bit_cuda, sgd_bf16_cuda, sgd_8bit_cuda, muon_cuda, adafactor_cuda;
// Directions of streamed rules.
UpdateCudaFn muon_direction_cuda, muon_bf16_direction_cuda;

void update_cuda(const UpdateChunk&, Precision, UpdatePart, Optim, const UpdateScalars* scalars,
                 cudaStream_t);

}  // namespace tidepool
