#include "kernels/distillation/distillation.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/distillation/divergence.h"
#include "kernels/soft_cap/soft_cap.h"

namespace tidepool {
namespace {

constexpr u32 rows_of_task = 16;

template <class Fn>
void for_rows_of(u32 rows, CorePool& pool, Fn fn) {
  parallel_for(pool, Priority::normal, static_cast<u32>(div_up(rows, rows_of_task)), [&](u32 task, u32) {
    const u32 end = std::min((task + 1) * rows_of_task, rows);
    for (u32 row = task * rows_of_task; row < end; ++row) fn(row);
  });
}

float seen_logit(const LogitsSlice& s, float logit) {
  if (s.cap != 0) soft_cap_row(&logit, s.cap, 1);
  return logit;
}

// Calls fn(number, column) for the teacher's tokens of a row that lie in the slice.
template <class Fn>
void for_tokens(const LogitsSlice& s, const TeacherTokens& t, u32 row, Fn fn) {
  const float* tokens = t.distributions + t.numbers_of(row) + t.rule.top_k;
  for (u32 i = 0; i < t.rule.top_k; ++i)
    if (const u32 column = static_cast<u32>(tokens[i]) - s.begin; column < s.columns) fn(i, column);
}

// The divergence of one row.
class RowDivergence {
 public:
  RowDivergence(const DivergenceLosses& d, u32 row)
      : d_(d),
        rule_(d.tokens.rule),
        teacher_(d.tokens.distributions + d.tokens.numbers_of(row), rule_.top_k),
        logits_(d.tokens.logits + d.tokens.logits_of(row), rule_.top_k),
        lse_(d.losses[row].lse) {
    double teacher = 0, model = 0;
    for (u32 i = 0; i < rule_.top_k; ++i) {
      teacher += std::exp(double{teacher_[i]});
      model += std::exp(log_model(i));
    }
    if (rule_.remainder == Remainder::renormalized) {
      log_teacher_sum_ = std::log(teacher), log_model_sum_ = std::log(model);
    } else if (rule_.top_k < d.columns) {
      const double rest = remainder_of(model);
      const TokenDivergence others =
          token_divergence(rule_.beta, std::log(remainder_of(teacher)), std::log(rest));
      loss_ = others.loss, derivatives_ = others.derivative, rest_ratio_ = others.derivative / rest;
    }
    for (u32 i = 0; i < rule_.top_k; ++i) {
      const TokenDivergence token = of(i);
      loss_ += token.loss, derivatives_ += token.derivative;
    }
  }

  double loss() const { return loss_; }
  // Replaces logits by their gradients, less what the whole row's softmax has.
  RowFactors make_gradients() {
    const bool renormalized = rule_.remainder == Remainder::renormalized;
    for (u32 i = 0; i < rule_.top_k; ++i) {
      const double probability = std::exp(log_model(i) - log_model_sum_);
      const double gradient = of(i).derivative - probability * (renormalized ? derivatives_ : rest_ratio_);
      const double capped = d_.cap == 0 ? 0 : double{logits_[i]} / double{d_.cap};
      logits_[i] = static_cast<float>(d_.weight * gradient * (1 - capped * capped));
    }
    return {renormalized ? 0 : static_cast<float>(d_.weight * (rest_ratio_ - derivatives_)), 0};
  }

 private:
  double log_model(u32 i) const { return double{logits_[i]} - lse_; }
  TokenDivergence of(u32 i) const {
    return token_divergence(rule_.beta, double{teacher_[i]} - log_teacher_sum_,
                            log_model(i) - log_model_sum_);
  }

  const DivergenceLosses& d_;
  const DivergenceRule& rule_;
  const std::span<const float> teacher_;
  const std::span<float> logits_;
  const double lse_;
  double log_teacher_sum_ = 0, log_model_sum_ = 0;  // renormalized only
  double loss_ = 0, derivatives_ = 0;
  double rest_ratio_ = 0;  // derivative of the remainder's part by the model's remainder
};

}  // namespace

void take_teacher_tokens_cpu(const LogitsSlice& s, const TeacherTokens& t, CorePool& pool) {
  for_rows_of(t.rows, pool, [&](u32 row) {
    if (!has_loss(t.targets[row])) return;
    const float* logits = s.logits.fp32() + u64{row} * s.row_elements();
    float* const out = t.logits + t.logits_of(row);
    for_tokens(s, t, row, [&](u32 i, u32 column) { out[i] = seen_logit(s, logits[column]); });
  });
}

void divergence_losses_cpu(const DivergenceLosses& d, CorePool& pool) {
  for_rows_of(d.tokens.rows, pool, [&](u32 row) {
    d.of_rows[row] = 0;
    if (d.factors != nullptr) d.factors[row] = {};
    if (!has_loss(d.tokens.targets[row])) return;
    RowDivergence divergence(d, row);
    d.of_rows[row] = divergence.loss();
    if (d.factors != nullptr) d.factors[row] = divergence.make_gradients();
  });
  for (u32 row = 0; row < d.tokens.rows; ++row) *d.sum += d.of_rows[row];
}

void add_teacher_gradients_cpu(const LogitsSlice& s, const TeacherTokens& t, const LossFactors& factors,
                               CorePool& pool) {
  const float scale = factors.loss_scale != nullptr ? factors.scale * *factors.loss_scale : factors.scale;
  for_rows_of(t.rows, pool, [&](u32 row) {
    if (!has_loss(t.targets[row])) return;
    float* const gradients = s.logits.fp32() + u64{row} * s.row_elements();
    const float* const of_tokens = t.logits + t.logits_of(row);
    for_tokens(s, t, row, [&](u32 i, u32 column) { gradients[column] += scale * of_tokens[i]; });
  });
}

void select_top_cpu(const LogitsSlice& s, TopToken* top, u32 k, CorePool& pool) {
  for_rows_of(s.rows, pool, [&](u32 row) {
    const std::span list(top + u64{row} * k, k);
    u32 count = std::min(s.begin, k);
    const float* const logits = s.logits.fp32() + u64{row} * s.row_elements();
    for (u32 column = 0; column < s.columns; ++column) {
      const float logit = seen_logit(s, logits[column]);
      if (count == k && !(logit > list.back().logit)) continue;
      const auto place =
          std::ranges::upper_bound(list.first(count), logit, std::greater<>(), &TopToken::logit);
      if (count < k) ++count;
      std::move_backward(place, list.begin() + count - 1, list.begin() + count);
      *place = {logit, static_cast<i32>(s.begin + column)};
    }
  });
}

void top_distributions(const RowLoss* losses, const i32* targets, const TopToken* top, u32 rows, u32 k,
                       float* out) {
  for (u32 row = 0; row < rows; ++row) {
    float* const of_row = out + u64{row} * 2 * k;
    const bool wanted = has_loss(targets[row]);
    for (u32 i = 0; i < k; ++i) {
      const TopToken& token = top[u64{row} * k + i];
      of_row[i] = wanted ? token.logit - losses[row].lse : 0;
      of_row[k + i] = wanted ? static_cast<float>(token.token) : 0;
    }
  }
}

}  // namespace tidepool
