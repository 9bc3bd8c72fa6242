#include "kernels/attention/attention_backward_tensor.cuh"
#include "kernels/attention/attention_fma.cuh"
#include "kernels/attention/attention_host.cuh"
#include "kernels/cuda/kernels_cuda_parts.h"

namespace tidepool {
namespace cuda {
namespace {

// delta = dout . out by row, stored at the future place of dq. A warp takes a token's heads, 32 / `lanes` of
// them at a time, because these are neighbours in memory. Bandwidth binds: out and dout are read once.
template <class T, bool whole>
__global__ void attention_delta_kernel(AttentionBackwardArguments<T> op, u32 lanes, u64 rows) {
  const u64 row = grid_thread() / 32;  // over all sequences
  if (row >= rows) return;
  const u32 heads = op.sizes.heads, size = op.sizes.value_size,
            column = lane_index() % lanes * vector_elements;
  for (u32 from = 0; from < heads; from += 32 / lanes) {
    const u32 head = from + lane_index() / lanes;
    const u64 start = row * op.sizes.out_columns + u64{head} * size;
    float sum = 0;
    for (u32 at = column; head < heads && at < size; at += vector_elements * lanes) {
      float x[8], y[8];
      load8<whole>(op.out + start, at, size, x);
      load8<whole>(op.dout + start, at, size, y);
      for (u32 i = 0; i < 8; ++i) sum = fmaf(x[i], y[i], sum);
    }
    for (u32 flip = lanes / 2; flip > 0; flip /= 2)
      sum += __shfl_xor_sync(all_lanes, sum, static_cast<int>(flip));
    if (head < heads && column == 0 && delta_has_room<T>(op.sizes)) {
      put_delta(op.dqkv + row * op.sizes.qkv_columns + u64{head} * op.sizes.head_size, sum);
    }
  }
}

template <class T>
void make_delta(const AttentionBackward& op, cudaStream_t stream) {
  const u32 lanes = attention_delta_lanes(op.shape.value_head_size());
  for_bool(rows_of_vectors(op.shape.value_head_size(), op.out, op.dout), [&](auto whole) {
    launch<attention_delta_kernel<T, whole.value>>(attention_delta_launch(op.shape), stream,
                                                   backward_arguments<T>(op), lanes,
                                                   u64{op.shape.sequences} * op.shape.tokens);
  });
}

// dsinks = -sum over a head's rows of exp(sink - lse) delta: a block for each head of a sequence. From each
// row, 32 bytes hold the head's delta: less than the delta kernel has read, and blocks are few but wide.
template <class T>
__global__ void attention_sinks_kernel(AttentionBackwardArguments<T> op, u32 sequences, DeviceParam sinks,
                                       float* dsinks, bool accumulate) {
  const u32 of_sequence = blockIdx.x;
  const float sink_log2 = sinks.at(of_sequence) * log2_of_e;
  float sum = 0;
  for (u32 sequence = 0; sequence < sequences; ++sequence) {
    const DeviceHead head = {op.sizes, sequence * op.sizes.heads + of_sequence};
    for (u32 row = op.sizes.first + threadIdx.x; row < op.sizes.tokens; row += blockDim.x) {
      const RowStatistics of_row = row_statistics(op, head, row);
      sum = fmaf(-exp2_fast(sink_log2 - of_row.lse2), of_row.delta, sum);
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) dsinks[of_sequence] = accumulate ? dsinks[of_sequence] + sum : sum;
}

template <class T>
void make_dsinks(const AttentionBackward& op, cudaStream_t stream) {
  require(bool(op.sinks), "gradients of sinks need the sinks");
  launch<attention_sinks_kernel<T>>(attention_sinks_launch(op.shape), stream, backward_arguments<T>(op),
                                    op.shape.sequences, DeviceParam{op.sinks.data, op.sinks.precision},
                                    op.dsinks, op.accumulate);
}

// The shape with the keys that a tile sees as its tokens.
AttentionShape key_shape(const AttentionBackward& op) {
  AttentionShape shape = op.shape;
  shape.tokens += op.tile.first;
  return shape;
}

template <class Mma, u32 size, bool dropout, bool rare>
void backward_tensor(const AttentionBackward& op, cudaStream_t stream) {
  const auto arguments = backward_arguments<typename Mma::Half>(op);
  launch<attention_backward_keys_tensor<Mma, size, dropout, rare>>(
      attention_backward_keys_launch(key_shape(op), Mma::units), stream, arguments);
  launch<attention_backward_queries_tensor<Mma, size, dropout, rare>>(
      attention_backward_queries_launch(op.shape, Mma::units), stream, arguments);
}
template <class Mma, u32 size>
void backward_tensor(const AttentionBackward& op, cudaStream_t stream) {
  if (op.shape.cap != 0 || op.holes != nullptr) return backward_tensor<Mma, size, true, true>(op, stream);
  op.dropout.on() ? backward_tensor<Mma, size, true, false>(op, stream)
                  : backward_tensor<Mma, size, false, false>(op, stream);
}

template <class T>
void backward_fma(const AttentionBackward& op, cudaStream_t stream) {
  const AttentionBackwardArguments<T> arguments = backward_arguments<T>(op);
  for_fma_lanes(op.shape, [&](auto lanes) {
    constexpr u32 count = decltype(lanes)::value;
    launch<attention_backward_keys_fma<T, count>>(
        attention_backward_keys_launch(key_shape(op), AttentionUnits::fma), stream, arguments);
    launch<attention_backward_queries_fma<T, count>>(
        attention_backward_queries_launch(op.shape, AttentionUnits::fma), stream, arguments);
  });
}

}  // namespace
}  // namespace cuda

// Launches the kernels in this order: delta, dsinks, dk and dv, dq. The last overwrites delta with dq, after
// the others have read delta.
void attention_backward_cuda(const AttentionBackward& op, cudaStream_t stream) {
  using namespace cuda;
  const AttentionUnits units = attention_units_here(op.qkv.precision, op.shape, AttentionPass::backward);
  check_attention(op.shape, units, op.tile, {op.qkv, op.out, op.dout, op.dqkv});
  for_precision(op.qkv.precision, [&](auto type) {
    using T = decltype(type);
    make_delta<T>(op, stream);
    if (op.dsinks != nullptr) make_dsinks<T>(op, stream);
    if (units == AttentionUnits::fma) backward_fma<T>(op, stream);
  });
  if (units != AttentionUnits::fma) {
    for_attention_mma(units, op.qkv.precision, op.shape, [&](auto mma, auto size) {
      backward_tensor<decltype(mma), decltype(size)::value>(op, stream);
    });
  }
}

}  // namespace tidepool
