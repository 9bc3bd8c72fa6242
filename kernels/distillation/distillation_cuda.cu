// Distillation on the device: a block has a row.
#include <cfloat>

#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/kernels_cuda_parts.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/soft_cap.h"
#include "kernels/distillation/distillation_launch.h"
#include "kernels/distillation/divergence.h"

namespace tidepool {
namespace cuda {
namespace {

template <class T>
struct TokenSlice {
  u32 begin, columns, stride;
  T* logits;
  float cap, inverse_cap;

  __device__ float seen(float logit) const {
    return cap != 0 ? capped<T>(logit, cap, inverse_cap).value : logit;
  }
};
template <class T>
TokenSlice<T> token_slice_of(const LogitsSlice& s) {
  return {.begin = s.begin,
          .columns = s.columns,
          .stride = s.row_elements(),
          .logits = elements<T>(s.logits),
          .cap = s.cap,
          .inverse_cap = s.cap != 0 ? 1 / s.cap : 0};
}

// Calls fn(number, column) for the teacher's tokens of the block's row that lie in the slice.
template <class T, class Fn>
__device__ void for_tokens_of(const TokenSlice<T>& s, const TeacherTokens& t, Fn fn) {
  const u32 k = t.rule.top_k;
  const float* tokens = t.distributions + u64{blockIdx.x} * 2 * k + k;
  for (u32 i = threadIdx.x; i < k; i += teacher_threads)
    if (const u32 column = static_cast<u32>(tokens[i]) - s.begin; column < s.columns) fn(i, column);
}

template <class T>
__global__ void __launch_bounds__(teacher_threads) take_tokens_kernel(TokenSlice<T> s, TeacherTokens t) {
  if (!has_loss(t.targets[blockIdx.x])) return;
  const T* row = s.logits + u64{blockIdx.x} * s.stride;
  float* out = t.logits + u64{blockIdx.x} * t.rule.top_k;
  for_tokens_of(s, t, [&](u32 i, u32 column) { out[i] = s.seen(widened(row[column])); });
}

template <class T>
__global__ void __launch_bounds__(teacher_threads)
    add_gradients_kernel(TokenSlice<T> s, TeacherTokens t, float scale, const float* loss_scale) {
  if (!has_loss(t.targets[blockIdx.x])) return;
  if (loss_scale != nullptr) scale *= *loss_scale;
  T* row = s.logits + u64{blockIdx.x} * s.stride;
  const float* gradients = t.logits + u64{blockIdx.x} * t.rule.top_k;
  for_tokens_of(s, t, [&](u32 i, u32 column) {
    row[column] = narrowed<T>(widened(row[column]) + scale * gradients[i]);
  });
}

// The sums of both distributions, and then of the tokens' parts, each over the block's threads.
__global__ void __launch_bounds__(teacher_threads) divergence_kernel(DivergenceLosses d) {
  const u32 row = blockIdx.x, k = d.tokens.rule.top_k;
  const DivergenceRule rule = d.tokens.rule;
  if (!has_loss(d.tokens.targets[row])) {
    if (threadIdx.x > 0) return;
    d.of_rows[row] = 0;
    if (d.factors != nullptr) d.factors[row] = {};
    return;
  }
  const float* teacher = d.tokens.distributions + u64{row} * 2 * k;
  float* logits = d.tokens.logits + u64{row} * k;
  const double lse = d.losses[row].lse;
  double of_teacher = 0, of_model = 0;
  for (u32 i = threadIdx.x; i < k; i += teacher_threads) {
    of_teacher += exp(double{teacher[i]});
    of_model += exp(double{logits[i]} - lse);
  }
  of_teacher = block_sum(of_teacher);
  of_model = block_sum(of_model);
  const bool renormalized = rule.remainder == Remainder::renormalized;
  const double teacher_sum = renormalized ? log(of_teacher) : 0, model_sum = renormalized ? log(of_model) : 0;
  const auto of_token = [&](u32 i) {
    return token_divergence(rule.beta, double{teacher[i]} - teacher_sum, double{logits[i]} - lse - model_sum);
  };
  double loss = 0, derivatives = 0, rest_ratio = 0;
  for (u32 i = threadIdx.x; i < k; i += teacher_threads) {
    const TokenDivergence token = of_token(i);
    loss += token.loss, derivatives += token.derivative;
  }
  loss = block_sum(loss);
  derivatives = block_sum(derivatives);
  if (!renormalized && k < d.columns) {
    const double rest = remainder_of(of_model);
    const TokenDivergence others = token_divergence(rule.beta, log(remainder_of(of_teacher)), log(rest));
    loss += others.loss, derivatives += others.derivative, rest_ratio = others.derivative / rest;
  }
  if (threadIdx.x == 0) d.of_rows[row] = loss;
  if (d.factors == nullptr) return;
  for (u32 i = threadIdx.x; i < k; i += teacher_threads) {
    const double probability = exp(double{logits[i]} - lse - model_sum);
    const double gradient = of_token(i).derivative - probability * (renormalized ? derivatives : rest_ratio);
    const double capped = d.cap == 0 ? 0 : double{logits[i]} / double{d.cap};
    logits[i] = static_cast<float>(d.weight * gradient * (1 - capped * capped));
  }
  if (threadIdx.x == 0)
    d.factors[row] = {renormalized ? 0 : static_cast<float>(d.weight * (rest_ratio - derivatives)), 0};
}

__global__ void __launch_bounds__(1024) add_losses_kernel(const double* of_rows, u32 rows, double* sum) {
  double mine = 0;
  for (u32 row = threadIdx.x; row < rows; row += 1024) mine += of_rows[row];
  mine = block_sum(mine);
  if (threadIdx.x == 0) *sum += mine;
}

// A token of the slice.
struct Candidate {
  float logit;
  u32 column;
};
// RETURNS: the first column behind `last`, in the order of select_top(); its logit is -infinity if there is
// none.
template <class T>
__device__ Candidate next_candidate(const TokenSlice<T>& s, const T* row, const Candidate& last) {
  Candidate mine = {-INFINITY, 0};
  for (u32 column = threadIdx.x; column < s.columns; column += teacher_threads) {
    const float logit = s.seen(widened(row[column]));
    const bool behind = logit < last.logit || (logit == last.logit && column > last.column);
    if (behind && logit > mine.logit) mine = {logit, column};
  }
  const float logit = block_max(mine.logit);
  // Columns are exact in fp32: there are fewer than 2^24.
  const float column = block_max(mine.logit == logit ? -static_cast<float>(mine.column) : -INFINITY);
  return {logit, static_cast<u32>(-column)};
}

// Merges the row's list with the slice: a pass over the slice for each token that comes into the list.
template <class T>
__global__ void __launch_bounds__(teacher_threads) select_top_kernel(TokenSlice<T> s, TopToken* top, u32 k) {
  TopToken* const merged = dynamic_shared<TopToken>();
  TopToken* const list = top + u64{blockIdx.x} * k;
  const T* row = s.logits + u64{blockIdx.x} * s.stride;
  const u32 old_count = s.begin < k ? s.begin : k;
  const u32 count = s.begin + s.columns < k ? s.begin + s.columns : k;
  u32 from_list = 0;
  Candidate next = next_candidate(s, row, {INFINITY, 0});
  for (u32 i = 0; i < count; ++i) {
    // Earlier slices have the smaller tokens.
    const bool old = from_list < old_count && !(next.logit > list[from_list].logit);
    if (threadIdx.x == 0)
      merged[i] = old ? list[from_list] : TopToken{next.logit, static_cast<i32>(s.begin + next.column)};
    if (old)
      ++from_list;
    else
      next = next_candidate(s, row, next);
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < count; i += teacher_threads) list[i] = merged[i];
}

__global__ void __launch_bounds__(teacher_threads)
    distributions_kernel(const RowLoss* losses, const i32* targets, const TopToken* top, u32 k, float* out) {
  const u32 row = blockIdx.x;
  const bool wanted = has_loss(targets[row]);
  for (u32 i = threadIdx.x; i < k; i += teacher_threads) {
    const TopToken token = top[u64{row} * k + i];
    out[u64{row} * 2 * k + i] = wanted ? token.logit - losses[row].lse : 0;
    out[u64{row} * 2 * k + k + i] = wanted ? static_cast<float>(token.token) : 0;
  }
}

}  // namespace
}  // namespace cuda

void take_teacher_tokens_cuda(const LogitsSlice& s, const TeacherTokens& t, cudaStream_t stream) {
  using namespace cuda;
  for_precision(s.logits.precision, [&](auto type) {
    using T = decltype(type);
    launch<take_tokens_kernel<T>>(teacher_rows_launch(t.rows), stream, token_slice_of<T>(s), t);
  });
}

void divergence_losses_cuda(const DivergenceLosses& d, cudaStream_t stream) {
  using namespace cuda;
  launch<divergence_kernel>(teacher_rows_launch(d.tokens.rows), stream, d);
  launch<add_losses_kernel>({.block = {1024}}, stream, d.of_rows, d.tokens.rows, d.sum);
}

void add_teacher_gradients_cuda(const LogitsSlice& s, const TeacherTokens& t, const LossFactors& factors,
                                cudaStream_t stream) {
  using namespace cuda;
  for_precision(s.logits.precision, [&](auto type) {
    using T = decltype(type);
    launch<add_gradients_kernel<T>>(teacher_rows_launch(t.rows), stream, token_slice_of<T>(s), t,
                                    factors.scale, factors.loss_scale);
  });
}

void select_top_cuda(const LogitsSlice& s, TopToken* top, u32 k, cudaStream_t stream) {
  using namespace cuda;
  for_precision(s.logits.precision, [&](auto type) {
    using T = decltype(type);
    launch<select_top_kernel<T>>(select_top_launch(s.rows, k), stream, token_slice_of<T>(s), top, k);
  });
}

void top_distributions_cuda(const RowLoss* losses, const i32* targets, const TopToken* top, u32 rows, u32 k,
                            float* out, cudaStream_t stream) {
  using namespace cuda;
  launch<distributions_kernel>(teacher_rows_launch(rows), stream, losses, targets, top, k, out);
}

}  // namespace tidepool
