#include "kernels/attention/attention_backward_tensor.cuh"
#include "kernels/attention/attention_fma.cuh"
#include "kernels/attention/attention_host.cuh"
#include "kernels/cuda/kernels_cuda_parts.h"

namespace tidepool {
namespace cuda {
namespace {

// delta = dout . out by row, put where dq will be.
template <class T>
__global__ void attention_delta_kernel(AttentionBackwardArguments<T> op, u64 rows) {
  const u64 at = grid_thread() / 32;  // neighbours are heads of one token: their rows lie side by side
  if (at >= rows) return;
  const u64 token = at / op.sizes.heads;
  const u32 in_sequence = static_cast<u32>(token / op.sizes.tokens),
            of_token = static_cast<u32>(at % op.sizes.heads);
  const DeviceHead head = {op.sizes, in_sequence * op.sizes.heads + of_token};
  const u32 row = static_cast<u32>(token % op.sizes.tokens);
  const T* out = head.out(op.out, row).first;
  const T* dout = head.out(op.dout, row).first;
  float sum = 0;
  for (u32 i = lane_index(); i < op.sizes.head_size; i += 32)
    sum = fmaf(widened(dout[i]), widened(out[i]), sum);
  sum = warp_sum(sum);
  if (lane_index() == 0 && delta_has_room<T>(op.sizes)) put_delta(head.qkv(op.dqkv, 0, row).first, sum);
}

template <class T>
void make_delta(const AttentionBackward& op, cudaStream_t stream) {
  launch(attention_delta_kernel<T>, attention_delta_launch(op.shape), stream, backward_arguments<T>(op),
         op.shape.lse_elements());
}

template <u32 size, bool dropout>
void backward_tensor(const AttentionBackward& op, cudaStream_t stream) {
  const AttentionBackwardArguments<Bf16> arguments = backward_arguments<Bf16>(op);
  launch(attention_backward_keys_tensor<size, dropout>,
         attention_backward_keys_launch(op.shape, AttentionUnits::tensor), stream, arguments);
  launch(attention_backward_queries_tensor<size, dropout>,
         attention_backward_queries_launch(op.shape, AttentionUnits::tensor), stream, arguments);
}
template <u32 size>
void backward_tensor(const AttentionBackward& op, cudaStream_t stream) {
  op.dropout.on() ? backward_tensor<size, true>(op, stream) : backward_tensor<size, false>(op, stream);
}

template <class T>
void backward_fma(const AttentionBackward& op, cudaStream_t stream) {
  const AttentionBackwardArguments<T> arguments = backward_arguments<T>(op);
  for_fma_lanes(op.shape.head_size, [&](auto lanes) {
    constexpr u32 count = decltype(lanes)::value;
    launch(attention_backward_keys_fma<T, count>,
           attention_backward_keys_launch(op.shape, AttentionUnits::fma), stream, arguments);
    launch(attention_backward_queries_fma<T, count>,
           attention_backward_queries_launch(op.shape, AttentionUnits::fma), stream, arguments);
  });
}

}  // namespace
}  // namespace cuda

// Three kernels in this order: the last writes dq over delta, which the others have read.
void attention_backward_cuda(const AttentionBackward& op, cudaStream_t stream) {
  using namespace cuda;
  const AttentionUnits units = attention_units_here(op.qkv.precision, op.shape.head_size);
  check_attention(op.shape, units, {op.qkv, op.out, op.dout, op.dqkv});
  for_precision(op.qkv.precision, [&](auto type) {
    using T = decltype(type);
    make_delta<T>(op, stream);
    if (units == AttentionUnits::fma) backward_fma<T>(op, stream);
  });
  if (units == AttentionUnits::tensor) {
    for_attention_tensor_size(op.shape.head_size,
                              [&](auto size) { backward_tensor<decltype(size)::value>(op, stream); });
  }
}

}  // namespace tidepool
