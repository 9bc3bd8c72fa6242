// Cross-entropy over a vocabulary that is seen in slices: full logits never exist. The first pass
// runs each row's maximum and sum of exponentials over the slices; the second makes gradients.
#pragma once

#include "kernels/values.h"
#include "tidepool/core_pool.h"
#include "tidepool/ignored_target.h"

namespace tidepool {

// What the first pass keeps of a row.
struct RowLoss {
  float maximum = 0;  // of the logits so far
  float sum = 0;      // of exp(logit - maximum)
  float target = 0;   // the target's logit, once its slice was seen
  float lse = 0;      // of the whole row; set by cross_entropy_loss
};

// Columns [begin, begin + columns) of the logits.
struct LogitsSlice {
  u32 rows = 0;  // R
  u32 begin = 0, columns = 0;
  Values logits;                 // [R, columns], rows apart by `stride`
  u32 stride = 0;                // elements from row to row; 0: packed
  const i32* targets = nullptr;  // [R]
  RowLoss* losses = nullptr;     // [R]

  u32 row_elements() const { return stride != 0 ? stride : columns; }
};
// Slices in ascending order; the one at 0 starts afresh.
void cross_entropy_slice_cpu(const LogitsSlice&, CorePool&);

// After the last slice: sets lse, and adds lse - target of non-ignored rows to *loss_sum, in row order.
void cross_entropy_loss(RowLoss* losses, const i32* targets, u32 rows, double* loss_sum);

// logits become their gradients: scale * loss_scale (softmax - onehot), zero in ignored rows.
// `loss_scale`: in the kernels' memory, read when the gradients are made; null: 1.
void cross_entropy_gradient_cpu(const LogitsSlice&, float scale, const float* loss_scale, CorePool&);

}  // namespace tidepool
