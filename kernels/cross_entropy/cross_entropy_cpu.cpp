#include "kernels/cross_entropy/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cross_entropy/logits_rows.h"
#include "kernels/soft_cap/soft_cap.h"

namespace tidepool {
namespace {

constexpr u32 task_rows = 32;

template <class Fn>
void for_rows(u32 rows, CorePool& pool, Fn fn) {
  parallel_for(pool, Priority::normal, static_cast<u32>(div_up(rows, task_rows)), [&](u32 task, u32) {
    const u32 end = std::min((task + 1) * task_rows, rows);
    for (u32 row = task * task_rows; row < end; ++row) fn(row);
  });
}

// RETURNS: the logit as the loss sees it.
float seen(const LogitsSlice& s, float logit) {
  if (s.cap != 0) soft_cap_row(&logit, s.cap, 1);
  return logit;
}

bool holds_target(const LogitsSlice& s, u32 row) {
  const i32 target = s.targets[row];
  return target >= 0 && static_cast<u32>(target) - s.begin < s.columns;  // wraps below the slice
}

}  // namespace

void cross_entropy_slice_cpu(const LogitsSlice& s, CorePool& pool) {
  for_rows(s.rows, pool, [&](u32 row) {
    const float* logits = s.logits.fp32() + u64{row} * s.row_elements();
    RowLoss& loss = s.losses[row];
    if (s.begin == 0) loss = {.maximum = -std::numeric_limits<float>::infinity()};
    // A cap keeps the order of logits.
    const float maximum = std::max(loss.maximum, seen(s, max_row(logits, s.columns)));
    const float sum = s.cap == 0 ? sum_exp_row(logits, maximum, s.columns)
                                 : capped_sum_exp_row(logits, s.cap, maximum, s.columns);
    const float fall = std::exp(loss.maximum - maximum);
    if (s.logit_sums != nullptr) {
      const LogitSums of_slice = logit_sums_of_row(logits, s.cap, maximum, s.columns);
      LogitSums& sums = s.logit_sums[row];
      if (s.begin == 0)
        sums = of_slice;
      else
        sums.add(loss, maximum, fall, of_slice);
    }
    loss.sum = loss.sum * fall + sum;
    loss.maximum = maximum;
    if (holds_target(s, row)) loss.target = seen(s, logits[static_cast<u32>(s.targets[row]) - s.begin]);
  });
}

void cross_entropy_loss(RowLoss* losses, const i32* targets, u32 rows, const LossSums& sums) {
  for (u32 row = 0; row < rows; ++row) {
    RowLoss& loss = losses[row];
    const double lse = double{loss.maximum} + std::log(double{loss.sum});
    loss.lse = static_cast<float>(lse);
    if (!has_loss(targets[row])) continue;
    if (sums.loss != nullptr) *sums.loss += lse - sums.smoothing.mixed(loss, row);
    if (sums.correct != nullptr) *sums.correct += loss.target == loss.maximum;
  }
}

void target_outputs(const RowLoss* losses, const i32* targets, u32 rows, TargetOutput output,
                    float* outputs) {
  for (u32 row = 0; row < rows; ++row)
    outputs[row] = has_loss(targets[row]) ? output_of(losses[row], output) : 0.0f;
}

void cross_entropy_gradient_cpu(const LogitsSlice& s, const LossFactors& factors, CorePool& pool) {
  const float scale = factors.loss_scale != nullptr ? factors.scale * *factors.loss_scale : factors.scale;
  for_rows(s.rows, pool, [&](u32 row) {
    float* logits = s.logits.fp32() + u64{row} * s.row_elements();
    if (!has_loss(s.targets[row])) {
      std::fill_n(logits, s.columns, 0.0f);
      return;
    }
    const LogitFactors factor = factors.of_row(row, scale);
    float* target = holds_target(s, row) ? logits + (static_cast<u32>(s.targets[row]) - s.begin) : nullptr;
    if (s.cap == 0) {
      scaled_exp_row(logits, s.losses[row].lse, factor.softmax, factor.all, s.columns);
      if (target != nullptr) *target -= factor.target;
      return;
    }
    const float t = target != nullptr ? seen(s, *target) / s.cap : 0.0f;
    capped_scaled_exp_row(logits, s.cap, s.losses[row].lse, factor.softmax, factor.all, s.columns);
    if (target != nullptr) *target -= factor.target * (1 - t * t);
  });
}

}  // namespace tidepool
