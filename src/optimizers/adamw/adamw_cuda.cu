#include "kernels/update/update_kernel_cuda.h"
#include "optimizers/adamw/adamw.h"
#include "optimizers/optimizers_cuda.h"

namespace tidepool {
namespace {

struct AdamWRule {
  static constexpr u32 slots = 2;
  AdamWScalars s;

  __device__ explicit AdamWRule(const UpdateScalars& scalars) : s(scalars) {}
  __device__ float added(float grad, float, float) const { return grad; }
  __device__ void update(float grad, float decay, float& p, float (&state)[slots]) const {
    float &m = state[0], &v = state[1];
    const float root = __fmul_rn(s.grad_to_root, grad);
    m = __fmaf_rn(s.beta1, m, __fmul_rn(s.grad_to_momentum, grad));
    v = __fmaf_rn(root, root, __fmul_rn(s.beta2, v));
    p = __fmaf_rn(decay, p, -__fdiv_rn(m, __fmaf_rn(__fsqrt_rn(v), s.root_factor, s.root_offset)));
  }
};

}  // namespace

void adamw_cuda(const UpdateChunk& chunk, Precision precision, const UpdateScalars* scalars,
                cudaStream_t stream) {
  cuda::rules::update_cuda<AdamWRule, SlotFormat::f32, SlotFormat::f32>(chunk, precision, scalars, stream);
}
void adamw_bf16_cuda(const UpdateChunk& chunk, Precision precision, const UpdateScalars* scalars,
                     cudaStream_t stream) {
  cuda::rules::update_cuda<AdamWRule, SlotFormat::bf16, SlotFormat::bf16>(chunk, precision, scalars, stream);
}
void adamw_8bit_cuda(const UpdateChunk& chunk, Precision precision, const UpdateScalars* scalars,
                     cudaStream_t stream) {
  cuda::rules::update_cuda<AdamWRule, SlotFormat::signed8, SlotFormat::unsigned8>(chunk, precision, scalars,
                                                                                  stream);
}

}  // namespace tidepool
