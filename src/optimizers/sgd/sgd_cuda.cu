#include "kernels/update/update_kernel_cuda.h"
#include "optimizers/optimizers_cuda.h"
#include "optimizers/sgd/sgd.h"

namespace tidepool {
namespace {

struct SgdRule {
  static constexpr u32 slots = 1;
  SgdScalars s;

  __device__ explicit SgdRule(const UpdateScalars& scalars) : s(scalars) {}
  __device__ float added(float grad, float decay, float p) const {
    return __fmaf_rn(decay, p, __fmul_rn(s.grad_to_step, grad));
  }
  __device__ void update(float grad, float decay, float& p, float (&state)[slots]) const {
    float& m = state[0];
    m = __fmaf_rn(s.momentum, m, __fmaf_rn(decay, p, __fmul_rn(s.grad_to_step, grad)));
    p = __fmaf_rn(-s.learning_rate, m, p);
  }
};

}  // namespace

void sgd_cuda(const UpdateChunk& chunk, Precision precision, const UpdateScalars* scalars,
              cudaStream_t stream) {
  cuda::rules::update_cuda<SgdRule, SlotFormat::f32>(chunk, precision, scalars, stream);
}
void sgd_bf16_cuda(const UpdateChunk& chunk, Precision precision, const UpdateScalars* scalars,
                   cudaStream_t stream) {
  cuda::rules::update_cuda<SgdRule, SlotFormat::bf16>(chunk, precision, scalars, stream);
}
void sgd_8bit_cuda(const UpdateChunk& chunk, Precision precision, const UpdateScalars* scalars,
                   cudaStream_t stream) {
  cuda::rules::update_cuda<SgdRule, SlotFormat::signed8>(chunk, precision, scalars, stream);
}

}  // namespace tidepool
