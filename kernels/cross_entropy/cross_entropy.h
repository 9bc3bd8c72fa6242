// Cross-entropy over a vocabulary in slices: full logits never exist. The first pass updates each row's
// maximum and sum of exponentials slice by slice; the second pass computes gradients.
#pragma once

#include "kernels/values.h"
#include "tidepool/core_pool.h"
#include "tidepool/ignored_target.h"

namespace tidepool {

// State of a row in the first pass.
struct RowLoss {
  float maximum = 0;  // maximum of the logits so far; capped, if they are
  float sum = 0;      // sum of exp(logit - maximum)
  float target = 0;   // the target's logit, once its slice has been seen
  float lse = 0;      // log-sum-exp of the whole row; set by cross_entropy_loss
};

// Columns [begin, begin + columns) of the logits.
struct LogitsSlice {
  u32 rows = 0;  // R
  u32 begin = 0, columns = 0;
  Values logits;                 // [R, columns], with `stride` between rows
  u32 stride = 0;                // elements from row to row; 0: packed
  const i32* targets = nullptr;  // [R]
  RowLoss* losses = nullptr;     // [R]
  float cap = 0;                 // logits count as cap tanh(logit / cap); 0: as they are

  u32 row_elements() const { return stride != 0 ? stride : columns; }
};
// REQUIRES: slices come in ascending order; the slice at 0 resets the rows.
void cross_entropy_slice_cpu(const LogitsSlice&, CorePool&);

// LossSums points to the sums that cross_entropy_loss() adds to, for rows whose target is not ignored, in the
// order of rows. Null: not wanted.
struct LossSums {
  double* loss = nullptr;     // lse - target
  double* correct = nullptr;  // 1 where no logit is above the target's
};
// After the last slice: sets lse, and adds to the sums.
void cross_entropy_loss(RowLoss* losses, const i32* targets, u32 rows, const LossSums&);

// Replaces logits by their gradients: scale * loss_scale (softmax - onehot), zero in ignored rows. With a
// cap, also times the cap's derivative: the gradients are those of logits before the cap. `loss_scale`: in
// the kernels' memory, read when the gradients are computed; null: 1.
void cross_entropy_gradient_cpu(const LogitsSlice&, float scale, const float* loss_scale, CorePool&);

}  // namespace tidepool
