#include "optimizers/optimizers_cuda.h"

#include <array>

namespace tidepool {

void update_cuda(const UpdateChunk& chunk, Precision precision, Optim optim, const UpdateScalars* scalars,
                 cudaStream_t stream) {
  static constexpr std::array<UpdateCudaFn*, optim_count> rows = {
      adamw_cuda,     lion_cuda,      sgd_cuda,      adamw_bf16_cuda, adamw_8bit_cuda,
      lion_bf16_cuda, lion_8bit_cuda, sgd_bf16_cuda, sgd_8bit_cuda};
  rows[static_cast<u32>(optim)](chunk, precision, scalars, stream);
}

}  // namespace tidepool
