#include "kernels/attention/attention_fma.cuh"
#include "kernels/attention/attention_forward_tensor.cuh"
#include "kernels/attention/attention_host.cuh"
#include "kernels/cuda/kernels_cuda_parts.h"

namespace tidepool {
namespace cuda {
namespace {

template <class Mma, u32 size>
void forward_tensor(const Attention& op, const LaunchShape& shape, cudaStream_t stream) {
  const auto arguments = forward_arguments<typename Mma::Half>(op);
  if (op.shape.cap != 0 || op.holes != nullptr)
    return launch<attention_forward_tensor<Mma, size, true, true>>(shape, stream, arguments);
  for_bool(op.dropout.on(), [&](auto dropout) {
    launch<attention_forward_tensor<Mma, size, dropout.value, false>>(shape, stream, arguments);
  });
}

template <class T>
void forward_fma(const Attention& op, const LaunchShape& shape, cudaStream_t stream) {
  for_fma_lanes(op.shape, [&](auto lanes) {
    launch<attention_forward_fma<T, decltype(lanes)::value>>(shape, stream, forward_arguments<T>(op));
  });
}

}  // namespace
}  // namespace cuda

void attention_cuda(const Attention& op, cudaStream_t stream) {
  using namespace cuda;
  const AttentionUnits units = attention_units_here(op.qkv.precision, op.shape, AttentionPass::forward);
  check_attention(op.shape, units, op.tile, {op.qkv, op.out});
  const LaunchShape shape = attention_forward_launch(op.shape, units, op.dropout.on() || op.holes != nullptr);
  if (units != AttentionUnits::fma) {
    return for_attention_mma(units, op.qkv.precision, op.shape, [&](auto mma, auto size) {
      forward_tensor<decltype(mma), decltype(size)::value>(op, shape, stream);
    });
  }
  for_precision(op.qkv.precision, [&](auto type) { forward_fma<decltype(type)>(op, shape, stream); });
}

}  // namespace tidepool
