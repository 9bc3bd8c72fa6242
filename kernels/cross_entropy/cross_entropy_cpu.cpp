#include "kernels/cross_entropy/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cross_entropy/logits_rows.h"

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
    const float maximum = std::max(loss.maximum, max_row(logits, s.columns));
    loss.sum = loss.sum * std::exp(loss.maximum - maximum) + sum_exp_row(logits, maximum, s.columns);
    loss.maximum = maximum;
    if (holds_target(s, row)) loss.target = logits[static_cast<u32>(s.targets[row]) - s.begin];
  });
}

void cross_entropy_loss(RowLoss* losses, const i32* targets, u32 rows, const LossSums& sums) {
  for (u32 row = 0; row < rows; ++row) {
    RowLoss& loss = losses[row];
    const double lse = double{loss.maximum} + std::log(double{loss.sum});
    loss.lse = static_cast<float>(lse);
    if (!has_loss(targets[row])) continue;
    if (sums.loss != nullptr) *sums.loss += lse - double{loss.target};
    if (sums.correct != nullptr) *sums.correct += loss.target == loss.maximum;
  }
}

void cross_entropy_gradient_cpu(const LogitsSlice& s, float scale, const float* loss_scale, CorePool& pool) {
  if (loss_scale != nullptr) scale *= *loss_scale;
  for_rows(s.rows, pool, [&](u32 row) {
    float* logits = s.logits.fp32() + u64{row} * s.row_elements();
    if (!has_loss(s.targets[row])) {
      std::fill_n(logits, s.columns, 0.0f);
      return;
    }
    scaled_exp_row(logits, s.losses[row].lse, scale, s.columns);
    if (holds_target(s, row)) logits[static_cast<u32>(s.targets[row]) - s.begin] -= scale;
  });
}

}  // namespace tidepool
