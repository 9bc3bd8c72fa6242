// Cross-entropy over a vocabulary in slices: full logits never exist. The first pass updates each row's
// maximum and sum of exponentials slice by slice; the second pass computes gradients.
#pragma once

#include <cmath>

#include "kernels/values.h"
#include "tidepool/core_pool.h"
#include "tidepool/ignored_target.h"
#include "tidepool/objective.h"

namespace tidepool {

// State of a row in the first pass.
struct RowLoss {
  float maximum = 0;  // maximum of the logits so far; capped, if they are
  float sum = 0;      // sum of exp(logit - maximum)
  float target = 0;   // the target's logit, once its slice has been seen
  float lse = 0;      // log-sum-exp of the whole row; set by cross_entropy_loss
};

// Sums over a row's logits that the cross-entropy does not take.
struct LogitSums {
  float logits = 0;
  float weighted = 0;  // exp(d) d, where d = logit - maximum
  float squares = 0;   // exp(2 d)

  // Adds those of further columns. `before`: the row's statistics without these columns, `maximum`: with
  // them; `more` is by that.
  constexpr void add(const RowLoss& before, float maximum, float fall, const LogitSums& more) {
    logits += more.logits;
    weighted = fall * (weighted + (before.maximum - maximum) * before.sum) + more.weighted;
    squares = fall * fall * squares + more.squares;
  }
};
// RETURNS: the entropy of a row's probabilities. Templates, so that device code may call them.
template <class T = double>
constexpr T entropy_of(const RowLoss& loss, const LogitSums& sums) {
  return log(T{loss.sum}) - T{sums.weighted} / T{loss.sum};
}
// RETURNS: the logarithm of the sum of their squares.
template <class T = double>
constexpr T log_squares_of(const RowLoss& loss, const LogitSums& sums) {
  return log(T{sums.squares}) - 2 * log(T{loss.sum});
}

// Columns [begin, begin + columns) of the logits.
struct LogitsSlice {
  u32 rows = 0;  // R
  u32 begin = 0, columns = 0;
  Values logits;                    // [R, columns], with `stride` between rows
  u32 stride = 0;                   // elements from row to row; 0: packed
  const i32* targets = nullptr;     // [R]
  RowLoss* losses = nullptr;        // [R]
  float cap = 0;                    // logits count as cap tanh(logit / cap); 0: as they are
  LogitSums* logit_sums = nullptr;  // [R] of the row so far; null: not wanted

  u32 row_elements() const { return stride != 0 ? stride : columns; }
};
// REQUIRES: slices come in ascending order; the slice at 0 resets the rows.
void cross_entropy_slice_cpu(const LogitsSlice&, CorePool&);

// Label smoothing: a target is its token with 1 - share, and all `columns` tokens with share / columns.
struct Smoothing {
  float share = 0;
  u32 columns = 1;
  const LogitSums* logit_sums = nullptr;  // [R] of whole rows

  // RETURNS: the logit that the loss takes off the log-sum-exp.
  constexpr double mixed(const RowLoss& loss, u32 row) const {
    if (share == 0) return double{loss.target};
    return (1 - double{share}) * double{loss.target} +
           double{share} * double{logit_sums[row].logits} / columns;
  }
};

// LossSums points to the sums that cross_entropy_loss() adds to, for rows whose target is not ignored, in the
// order of rows. Null: not wanted.
struct LossSums {
  double* loss = nullptr;     // lse - target
  double* correct = nullptr;  // 1 where no logit is above the target's
  Smoothing smoothing;        // of loss
};
// After the last slice: sets lse, and adds to the sums.
void cross_entropy_loss(RowLoss* losses, const i32* targets, u32 rows, const LossSums&);

// After cross_entropy_loss(): log-probability or logit of each row's target; 0 in ignored rows.
constexpr float output_of(const RowLoss& loss, TargetOutput output) {
  return output == TargetOutput::scores ? loss.target : loss.target - loss.lse;
}
void target_outputs(const RowLoss* losses, const i32* targets, u32 rows, TargetOutput, float* outputs);

// The gradient of a row's logits is softmax * its probabilities, less `target` at the row's target.
struct RowFactors {
  float softmax = 0, target = 0;
};
// The same, and less `all` everywhere.
struct LogitFactors {
  float softmax = 0, target = 0, all = 0;
};

// Factors of gradients. All pointers are to the kernels' memory, read when the gradients are computed.
struct LossFactors {
  float scale = 1;
  const RowFactors* rows = nullptr;   // [R]; null: 1 and 1 for every row
  const float* loss_scale = nullptr;  // null: 1
  Smoothing smoothing;                // without `rows`

  // `scaled`: scale times the loss scale.
  constexpr LogitFactors of_row(u32 row, float scaled) const {
    if (rows != nullptr) return {scaled * rows[row].softmax, scaled * rows[row].target};
    return {scaled, scaled * (1 - smoothing.share),
            scaled * smoothing.share / static_cast<float>(smoothing.columns)};
  }
};
// Replaces logits by their gradients, zero in ignored rows. With a cap, also times the cap's derivative: the
// gradients are those of logits before the cap.
void cross_entropy_gradient_cpu(const LogitsSlice&, const LossFactors&, CorePool&);

}  // namespace tidepool
