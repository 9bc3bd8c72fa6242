#include "kernels/update/update_kernel_cuda.h"
#include "optimizers/muon/muon.h"
#include "optimizers/optimizers_cuda.h"

namespace tidepool {
namespace {

// `restores`: the direction goes back to the gradient's range.
template <bool restores>
struct MuonDirection {
  static constexpr u32 slots = 1;
  MuonScalars s;

  __device__ explicit MuonDirection(const UpdateScalars& scalars) : s(scalars) {}
  __device__ void update(float grad, float, float& direction, float (&state)[slots]) const {
    const float of_gradient = __fmul_rn(s.grad_to_momentum, grad);
    float& m = state[0];
    m = __fmaf_rn(s.momentum, m, of_gradient);
    direction = s.nesterov ? __fmaf_rn(s.momentum, m, of_gradient) : m;
    if constexpr (restores) {
      constexpr float most = direction_most;
      direction = fminf(fmaxf(__fmul_rn(direction, s.restored), -most), most);
    }
  }
};

struct MuonStep {
  static constexpr u32 slots = 0;
  MuonScalars s;

  __device__ explicit MuonStep(const UpdateScalars& scalars) : s(scalars) {}
  __device__ void update(float direction, float decay, float& p, float (&)[1]) const {
    p = __fmaf_rn(decay, p, -__fmul_rn(s.learning_rate, direction));
  }
};

template <SlotFormat format>
void direction_of(const UpdateChunk& chunk, Precision precision, const UpdateScalars* scalars,
                  cudaStream_t stream) {
  if (precision == Precision::fp16)
    return cuda::rules::direction_cuda<MuonDirection<true>, format>(chunk, precision, scalars, stream);
  cuda::rules::direction_cuda<MuonDirection<false>, format>(chunk, precision, scalars, stream);
}

}  // namespace

void muon_cuda(const UpdateChunk& chunk, Precision precision, const UpdateScalars* scalars,
               cudaStream_t stream) {
  cuda::rules::update_cuda<MuonStep>(chunk, precision, scalars, stream);
}
void muon_direction_cuda(const UpdateChunk& chunk, Precision precision, const UpdateScalars* scalars,
                         cudaStream_t stream) {
  direction_of<SlotFormat::f32>(chunk, precision, scalars, stream);
}
void muon_bf16_direction_cuda(const UpdateChunk& chunk, Precision precision, const UpdateScalars* scalars,
                              cudaStream_t stream) {
  direction_of<SlotFormat::bf16>(chunk, precision, scalars, stream);
}

}  // namespace tidepool
