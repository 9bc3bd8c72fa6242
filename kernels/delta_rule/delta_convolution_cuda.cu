// The convolution of q, k and v on the device. Memory is the bottleneck: forward reads and writes each
// channel once. A thread has a channel of a group of rows; neighbours have the channels beside. It brings
// eight rows into registers at a time, so that their reads are under way together.
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/gates.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/delta_rule/delta_chunk.h"
#include "kernels/delta_rule/delta_rule_launch.h"
#include "kernels/delta_rule/delta_sums_cuda.h"

namespace tidepool {
namespace cuda {
namespace {

inline constexpr u32 rows_at_once = 8;

template <class A, class P>
struct ConvolutionArguments {
  DeltaShape shape;
  const A* projected;
  const P* weight;
  const P* bias;      // or null
  const i32* starts;  // or null
};

// A thread's channel and rows. Taps count back: tap 0 reads the own row, `taps` - 1 the oldest. Launches have
// the smallest `taps` of 4 and 8; taps that the shape does not have weigh nothing.
template <u32 taps, class A, class P>
class ConvolutionColumn {
 public:
  __device__ __forceinline__ explicit ConvolutionColumn(const ConvolutionArguments<A, P>& op)
      : op_(op), channels_(delta_channels_of(op.shape, blockIdx.x % delta_channel_blocks(op.shape))) {
    const u32 in_sequence = (op.shape.tokens + delta_group_rows - 1) / delta_group_rows;
    group_ = blockIdx.x / delta_channel_blocks(op.shape);
    sequence_ = group_ / in_sequence * op.shape.tokens;
    begin_ = group_ % in_sequence * delta_group_rows;
    end_ = min(begin_ + delta_group_rows, op.shape.tokens);
    if (!is_mine()) return;
    const u32 all = op.shape.taps;
    UNROLL for (u32 back = 0; back < taps; ++back) {
      weight_[back] =
          back < all ? widened(op.weight[u64{channel()} * all + (all - 1 - min(back, all - 1))]) : 0.0f;
    }
    if (op.bias != nullptr) bias_ = widened(op.bias[channel()]);
  }

  __device__ __forceinline__ bool is_mine() const { return threadIdx.x < channels_.count; }
  __device__ __forceinline__ u32 begin() const { return begin_; }
  __device__ __forceinline__ u32 end() const { return end_; }
  __device__ __forceinline__ u32 group() const { return group_; }
  __device__ __forceinline__ u32 channel() const { return channels_.channel + threadIdx.x; }
  __device__ __forceinline__ float weight(u32 back) const { return weight_[back]; }
  __device__ __forceinline__ u64 projected(u32 token) const {
    return u64{sequence_ + token} * op_.shape.columns() + channels_.column + threadIdx.x;
  }
  __device__ __forceinline__ u64 channel_row(u32 token) const {
    return u64{sequence_ + token} * op_.shape.channels() + channel();
  }
  // RETURNS: how many rows before the token are in its document, at most taps - 1.
  __device__ __forceinline__ u32 rows_behind(u32 token) const {
    const i32* starts = op_.starts != nullptr ? op_.starts + sequence_ : nullptr;
    return min(token - delta_document(op_.shape, starts, token).row, taps - 1);
  }
  // Inputs of `rows_at_once` tokens from `token` on, behind those of the taps - 1 tokens before; zero from
  // `last` on.
  using Inputs = float[taps - 1 + rows_at_once];
  __device__ __forceinline__ void load(Inputs& x, u32 token, u32 last) const {
    UNROLL for (u32 i = 0; i < rows_at_once; ++i) {
      x[taps - 1 + i] = token + i < last ? widened(op_.projected[projected(token + i)]) : 0.0f;
    }
  }
  // The taps - 1 inputs before a token; zero before the sequence.
  __device__ __forceinline__ void load_before(Inputs& x, u32 token) const {
    UNROLL for (u32 i = 0; i < taps - 1; ++i) {
      const u32 back = taps - 1 - i;
      x[i] = token >= back ? widened(op_.projected[projected(token - back)]) : 0.0f;
    }
  }
  // The last taps - 1 become those before the next rows.
  static __device__ __forceinline__ void shift(Inputs& x) {
    UNROLL for (u32 i = 0; i < taps - 1; ++i) x[i] = x[i + rows_at_once];
  }
  // RETURNS: the sum of row i. `behind`: of the row.
  __device__ __forceinline__ float sum(const Inputs& x, u32 i, u32 behind) const {
    float sum = bias_;
    UNROLL for (u32 back = taps; back-- > 0;) {
      if (back <= behind) sum = fmaf(x[taps - 1 + i - back], weight_[back], sum);
    }
    return sum;
  }

 private:
  const ConvolutionArguments<A, P>& op_;
  const DeltaChannels channels_;
  u32 group_ = 0, sequence_ = 0, begin_ = 0, end_ = 0;
  float weight_[taps] = {}, bias_ = 0;
};

template <u32 taps, class A, class P>
__global__ void __launch_bounds__(delta_channel_threads)
    delta_convolution_kernel(ConvolutionArguments<A, P> op, A* y) {
  const ConvolutionColumn<taps, A, P> column(op);
  if (!column.is_mine()) return;
  typename ConvolutionColumn<taps, A, P>::Inputs x;
  column.load_before(x, column.begin());
  for (u32 token = column.begin(); token < column.end(); token += rows_at_once) {
    column.load(x, token, column.end());
    UNROLL for (u32 i = 0; i < rows_at_once; ++i) {
      if (token + i >= column.end()) break;
      const float sum = column.sum(x, i, column.rows_behind(token + i));
      y[column.channel_row(token + i)] = narrowed<A>(Silu::value<A>(sum));
    }
    column.shift(x);
  }
}

template <class A>
struct ConvolutionGradients {
  const A* dy;
  A* dprojected;
  float* partials;  // [groups, taps, C], or null
  float* of_bias;   // [groups, C], or null
};

// A row's gradient is complete `taps` - 1 rows later, when the last row that reads it has passed. Rows of the
// next group are computed again for it.
template <u32 taps, class A, class P>
__global__ void __launch_bounds__(delta_channel_threads)
    delta_convolution_backward_kernel(ConvolutionArguments<A, P> op, ConvolutionGradients<A> to) {
  const ConvolutionColumn<taps, A, P> column(op);
  if (!column.is_mine()) return;
  const u32 begin = column.begin(), end = column.end(), last = min(end + taps - 1, op.shape.tokens);
  typename ConvolutionColumn<taps, A, P>::Inputs x, dx = {};
  float dweight[taps] = {}, dbias = 0;
  column.load_before(x, begin);
  for (u32 token = begin; token < end + taps - 1; token += rows_at_once) {
    column.load(x, token, last);
    float dy[rows_at_once];
    UNROLL for (u32 i = 0; i < rows_at_once; ++i) {
      dy[i] = token + i < last ? widened(to.dy[column.channel_row(token + i)]) : 0.0f;
    }
    UNROLL for (u32 i = 0; i < rows_at_once; ++i) {
      if (token + i >= last) break;
      const u32 behind = column.rows_behind(token + i);
      const float ds = dy[i] * Silu::with_slope<A>(column.sum(x, i, behind)).slope;
      if (token + i < end) dbias += ds;
      UNROLL for (u32 back = 0; back < taps; ++back) {
        if (back > behind) continue;
        dx[taps - 1 + i - back] = fmaf(ds, column.weight(back), dx[taps - 1 + i - back]);
        if (token + i < end) dweight[back] = fmaf(ds, x[taps - 1 + i - back], dweight[back]);
      }
    }
    UNROLL for (u32 i = 0; i < rows_at_once; ++i) {  // of token + i - (taps - 1)
      const u32 row = token + i + 1 - taps;
      if (token + i + 1 >= begin + taps && row < end)
        to.dprojected[column.projected(row)] = narrowed<A>(dx[i]);
    }
    column.shift(x);
    column.shift(dx);
    UNROLL for (u32 i = taps - 1; i < taps - 1 + rows_at_once; ++i) dx[i] = 0.0f;
  }
  if (to.partials == nullptr) return;
  if (to.of_bias != nullptr) to.of_bias[u64{column.group()} * op.shape.channels() + column.channel()] = dbias;
  UNROLL for (u32 back = 0; back < taps; ++back) {
    if (back < op.shape.taps)
      to.partials[(u64{column.group()} * op.shape.taps + (op.shape.taps - 1 - back)) * op.shape.channels() +
                  column.channel()] = dweight[back];
  }
}

// `op`: DeltaConvolution or DeltaConvolutionBackward. Calls fn(taps, arguments).
template <class Op, class Fn>
void for_convolution(const Op& op, Fn fn) {
  const DeltaShape& s = op.shape;
  require(s.taps >= 1 && s.taps <= delta_taps_max, "a convolution has 1 to 8 taps");
  require(s.key_heads > 0 && s.value_heads % s.key_heads == 0, "value heads share key heads evenly");
  for_precisions(op.projected.precision, op.weight.precision, [&](auto a, auto p) {
    using A = decltype(a);
    using P = decltype(p);
    const ConvolutionArguments<A, P> arguments = {.shape = s,
                                                  .projected = elements<A>(op.projected),
                                                  .weight = elements<P>(op.weight),
                                                  .bias = op.bias ? elements<P>(op.bias) : nullptr,
                                                  .starts = op.starts};
    if (s.taps <= 4) return fn(std::integral_constant<u32, 4>(), arguments);
    fn(std::integral_constant<u32, delta_taps_max>(), arguments);
  });
}

template <u32 taps, class A, class P>
void launch_convolution(const DeltaConvolution& op, const ConvolutionArguments<A, P>& arguments,
                        cudaStream_t stream) {
  launch<delta_convolution_kernel<taps, A, P>>(delta_convolution_launch(op.shape), stream, arguments,
                                               elements<A>(op.y));
}
// Behind those of the taps.
float* bias_partials(const DeltaConvolutionBackward& op) {
  return op.partials + u64{delta_groups(op.shape)} * op.shape.taps * op.shape.channels();
}
template <u32 taps, class A, class P>
void launch_convolution(const DeltaConvolutionBackward& op, const ConvolutionArguments<A, P>& arguments,
                        cudaStream_t stream) {
  const ConvolutionGradients<A> gradients = {.dy = elements<A>(op.dy),
                                             .dprojected = elements<A>(op.dprojected),
                                             .partials = op.dweight != nullptr ? op.partials : nullptr,
                                             .of_bias = op.dbias != nullptr ? bias_partials(op) : nullptr};
  launch<delta_convolution_backward_kernel<taps, A, P>>(delta_convolution_launch(op.shape), stream, arguments,
                                                        gradients);
}

}  // namespace
}  // namespace cuda

void delta_convolution_cuda(const DeltaConvolution& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.projected, op.y});
  if (op.shape.rows() == 0) return;
  for_convolution(
      op, [&](auto taps, const auto& arguments) { launch_convolution<taps.value>(op, arguments, stream); });
}

void delta_convolution_backward_cuda(const DeltaConvolutionBackward& op, cudaStream_t stream) {
  using namespace cuda;
  check_same_precision({op.projected, op.dy, op.dprojected});
  const DeltaShape& s = op.shape;
  if (s.rows() == 0) return;
  for_convolution(
      op, [&](auto taps, const auto& arguments) { launch_convolution<taps.value>(op, arguments, stream); });
  if (op.dweight == nullptr) return;
  DeltaSums sums = {.partials = op.partials,
                    .groups = delta_groups(s),
                    .kinds = s.taps,
                    .columns = s.channels(),
                    .stride = s.taps,
                    .accumulate = op.accumulate};
  for (u32 tap = 0; tap < s.taps; ++tap) sums.out[tap] = op.dweight + tap;
  sum_delta_groups(sums, stream);
  if (op.dbias != nullptr)
    sum_delta_groups({.partials = bias_partials(op),
                      .groups = delta_groups(s),
                      .kinds = 1,
                      .columns = s.channels(),
                      .out = {op.dbias},
                      .accumulate = op.accumulate},
                     stream);
}

}  // namespace tidepool
