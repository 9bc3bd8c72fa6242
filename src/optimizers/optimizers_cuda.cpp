#include "optimizers/optimizers_cuda.h"

#include <array>

namespace tidepool {

void update_cuda(const UpdateChunk& chunk, Precision precision, UpdatePart part, Optim optim,
                 const UpdateScalars* scalars, cudaStream_t stream) {
  static constexpr std::array<UpdateCudaFn*, optim_count> rows = {
      adamw_cuda,     lion_cuda,     sgd_cuda,      adamw_bf16_cuda, adamw_8bit_cuda, lion_bf16_cuda,
      lion_8bit_cuda, sgd_bf16_cuda, sgd_8bit_cuda, muon_cuda,       muon_cuda,       adafactor_cuda};
  UpdateCudaFn* run = rows[static_cast<u32>(optim)];
  if (part == UpdatePart::direction)
    run = optim == Optim::muon ? muon_direction_cuda : muon_bf16_direction_cuda;
  run(chunk, precision, scalars, stream);
}

}  // namespace tidepool
