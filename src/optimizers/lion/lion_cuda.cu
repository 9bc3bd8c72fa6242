#include "kernels/update/update_kernel_cuda.h"
#include "optimizers/lion/lion.h"
#include "optimizers/optimizers_cuda.h"

namespace tidepool {
namespace {

struct LionRule {
  static constexpr u32 slots = 1;
  LionScalars s;

  __device__ explicit LionRule(const UpdateScalars& scalars) : s(scalars) {}
  __device__ float added(float grad, float, float) const { return grad; }
  __device__ void update(float grad, float decay, float& p, float (&state)[slots]) const {
    float& m = state[0];
    const float c = __fmaf_rn(s.beta1, m, __fmul_rn(s.grad_to_step, grad));
    m = __fmaf_rn(s.beta2, m, __fmul_rn(s.grad_to_momentum, grad));
    const float step = c > 0 ? s.learning_rate : c < 0 ? -s.learning_rate : 0.0f;
    p = __fmaf_rn(decay, p, -step);
  }
};

}  // namespace

void lion_cuda(const UpdateChunk& chunk, Precision precision, const UpdateScalars* scalars,
               cudaStream_t stream) {
  cuda::rules::update_cuda<LionRule, SlotFormat::f32>(chunk, precision, scalars, stream);
}
void lion_bf16_cuda(const UpdateChunk& chunk, Precision precision, const UpdateScalars* scalars,
                    cudaStream_t stream) {
  cuda::rules::update_cuda<LionRule, SlotFormat::bf16>(chunk, precision, scalars, stream);
}
void lion_8bit_cuda(const UpdateChunk& chunk, Precision precision, const UpdateScalars* scalars,
                    cudaStream_t stream) {
  cuda::rules::update_cuda<LionRule, SlotFormat::signed8>(chunk, precision, scalars, stream);
}

}  // namespace tidepool
