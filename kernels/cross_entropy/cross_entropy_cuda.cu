// Cross-entropy on the device. Each pass reads a slice once: a thread keeps the maximum so far and the sum of
// exponentials relative to it, and rescales the sum when the maximum grows (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", arXiv:1805.02867).
#include <cfloat>
#include <cmath>

#include "kernels/cross_entropy/cross_entropy_launch.h"
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/soft_cap.h"

namespace tidepool {
namespace cuda {
namespace {

// Below every number: exp(lowest - x) is 0 for logits x and 1 for x = lowest, where minus infinity would give
// NaN.
constexpr float lowest = -FLT_MAX;

template <class T>
struct Slice {
  u32 begin, columns, stride;
  T* logits;
  const i32* targets;
  RowLoss* losses;
  float cap, inverse_cap;
  LogitSums* logit_sums;
};

// RETURNS: the logit as the loss sees it, and its derivative by the logit.
template <bool cap, class T>
__device__ __forceinline__ Capped seen(const Slice<T>& s, float logit) {
  if constexpr (cap) return capped<T>(logit, s.cap, s.inverse_cap);
  return {logit, 1.0f};
}

// RETURNS: the target's column in the slice, for this block's row; at least the slice's width if it is
// elsewhere.
template <class T>
__device__ u32 target_column(const Slice<T>& s) {
  const i32 target = s.targets[blockIdx.x];
  return target < 0 ? s.columns : static_cast<u32>(target) - s.begin;  // wraps below the slice
}

// Adds columns to sums that are by another maximum.
__device__ __forceinline__ void add_columns(LogitSums& sums, float logit, float maximum) {
  const float below = logit - maximum, e = expf(below);
  sums.logits += logit;
  sums.weighted += e * below;
  sums.squares += e * e;
}

// The sums of the block's threads, which each have a maximum of their own, by that of the row.
__device__ LogitSums sum_of_threads(LogitSums sums, const RowLoss& of_thread, float maximum) {
  sums.add(of_thread, maximum, expf(of_thread.maximum - maximum), {});
  return {block_sum(sums.logits), block_sum(sums.weighted), block_sum(sums.squares)};
}

template <bool whole, bool cap, class T>
__global__ void __launch_bounds__(256) slice_kernel(Slice<T> s) {
  const T* row = s.logits + u64{blockIdx.x} * s.stride;
  const bool sums_logits = s.logit_sums != nullptr;
  float maximum = lowest, sum = 0;
  LogitSums logit_sums;
  for (u32 at = vector_elements * threadIdx.x; at < s.columns; at += vector_elements * blockDim.x) {
    float v[8];
    load8<whole>(row, at, s.columns, v);
    float next = maximum;
    for (u32 i = 0; i < 8; ++i) {
      v[i] = seen<cap>(s, v[i]).value;
      if (!whole && at + i >= s.columns) v[i] = -INFINITY;
      next = fmaxf(next, v[i]);
    }
    if (sums_logits) {
      logit_sums.add({.maximum = maximum, .sum = sum}, next, expf(maximum - next), {});
      for (u32 i = 0; i < 8; ++i)
        if (whole || at + i < s.columns) add_columns(logit_sums, v[i], next);
    }
    sum *= expf(maximum - next);
    for (u32 i = 0; i < 8; ++i) sum += expf(v[i] - next);
    maximum = next;
  }
  const float row_maximum = block_max(maximum);
  const float row_sum = block_sum(sum * expf(maximum - row_maximum));
  if (sums_logits) logit_sums = sum_of_threads(logit_sums, {.maximum = maximum, .sum = sum}, row_maximum);
  if (threadIdx.x > 0) return;
  RowLoss loss = {.maximum = lowest};
  if (s.begin > 0) loss = s.losses[blockIdx.x];
  const float joint = fmaxf(loss.maximum, row_maximum);
  if (sums_logits) {
    LogitSums& of_row = s.logit_sums[blockIdx.x];
    if (s.begin == 0) of_row = {};
    logit_sums.add({.maximum = row_maximum, .sum = row_sum}, joint, expf(row_maximum - joint), {});
    of_row.add(loss, joint, expf(loss.maximum - joint), logit_sums);
  }
  loss.sum = loss.sum * expf(loss.maximum - joint) + row_sum * expf(row_maximum - joint);
  loss.maximum = joint;
  if (const u32 column = target_column(s); column < s.columns)
    loss.target = seen<cap>(s, widened(row[column])).value;
  s.losses[blockIdx.x] = loss;
}

__global__ void __launch_bounds__(loss_threads)
    loss_kernel(RowLoss* losses, const i32* targets, u32 rows, LossSums sums) {
  double sum = 0, correct = 0;
  for (u32 row = threadIdx.x; row < rows; row += loss_threads) {
    const RowLoss loss = losses[row];
    const double lse = double{loss.maximum} + log(double{loss.sum});
    losses[row].lse = static_cast<float>(lse);
    if (!has_loss(targets[row])) continue;
    sum += lse - sums.smoothing.mixed(loss, row);
    correct += loss.target == loss.maximum;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0 && sums.loss != nullptr) *sums.loss += sum;
  if (sums.correct == nullptr) return;
  correct = block_sum(correct);
  if (threadIdx.x == 0) *sums.correct += correct;
}

__global__ void __launch_bounds__(loss_threads)
    outputs_kernel(const RowLoss* losses, const i32* targets, u32 rows, TargetOutput output, float* outputs) {
  for (u32 row = threadIdx.x; row < rows; row += loss_threads)
    outputs[row] = has_loss(targets[row]) ? output_of(losses[row], output) : 0.0f;
}

template <bool whole, bool cap, class T>
__global__ void __launch_bounds__(256) gradient_kernel(Slice<T> s, LossFactors factors) {
  float scale = factors.scale;
  if (factors.loss_scale != nullptr) scale *= *factors.loss_scale;
  const LogitFactors factor = factors.of_row(blockIdx.x, scale);
  T* row = s.logits + u64{blockIdx.x} * s.stride;
  const bool ignored = !has_loss(s.targets[blockIdx.x]);
  const u32 target = target_column(s);
  const float lse = s.losses[blockIdx.x].lse;
  for (u32 at = vector_elements * threadIdx.x; at < s.columns; at += vector_elements * blockDim.x) {
    float v[8] = {};
    if (!ignored) {
      load8<whole>(row, at, s.columns, v);
      for (u32 i = 0; i < 8; ++i) {
        const Capped y = seen<cap>(s, v[i]);
        v[i] = expf(y.value - lse) * factor.softmax;
        v[i] -= factor.all;
        if (at + i == target) v[i] -= factor.target;
        if constexpr (cap) v[i] *= y.slope;
      }
    }
    store8<whole>(row, at, s.columns, v);
  }
}

template <class T>
Slice<T> slice_of(const LogitsSlice& s) {
  return {.begin = s.begin,
          .columns = s.columns,
          .stride = s.row_elements(),
          .logits = elements<T>(s.logits),
          .targets = s.targets,
          .losses = s.losses,
          .cap = s.cap,
          .inverse_cap = s.cap != 0 ? 1 / s.cap : 0,
          .logit_sums = s.logit_sums};
}

// Calls fn(whole, true if logits have a cap, zero of the logits' type).
template <class Fn>
void for_types(const LogitsSlice& s, Fn fn) {
  for_bool(rows_of_vectors(s.columns, s.logits) && s.row_elements() % vector_elements == 0, [&](auto whole) {
    for_bool(s.cap != 0,
             [&](auto cap) { for_precision(s.logits.precision, [&](auto type) { fn(whole, cap, type); }); });
  });
}

}  // namespace
}  // namespace cuda

void cross_entropy_slice_cuda(const LogitsSlice& s, cudaStream_t stream) {
  using namespace cuda;
  if (s.rows == 0) return;
  for_types(s, [&](auto whole, auto cap, auto type) {
    using T = decltype(type);
    launch<slice_kernel<whole.value, cap.value, T>>(cross_entropy_launch(s.rows, s.columns), stream,
                                                    slice_of<T>(s));
  });
}

void cross_entropy_loss_cuda(RowLoss* losses, const i32* targets, u32 rows, const LossSums& sums,
                             cudaStream_t stream) {
  cuda::launch<cuda::loss_kernel>({.block = {cuda::loss_threads}}, stream, losses, targets, rows, sums);
}

void target_outputs_cuda(const RowLoss* losses, const i32* targets, u32 rows, TargetOutput output,
                         float* outputs, cudaStream_t stream) {
  cuda::launch<cuda::outputs_kernel>({.block = {cuda::loss_threads}}, stream, losses, targets, rows, output,
                                     outputs);
}

void cross_entropy_gradient_cuda(const LogitsSlice& s, const LossFactors& factors, cudaStream_t stream) {
  using namespace cuda;
  if (s.rows == 0) return;
  for_types(s, [&](auto whole, auto cap, auto type) {
    using T = decltype(type);
    launch<gradient_kernel<whole.value, cap.value, T>>(cross_entropy_launch(s.rows, s.columns), stream,
                                                       slice_of<T>(s), factors);
  });
}

}  // namespace tidepool
