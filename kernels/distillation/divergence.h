// The divergence of two distributions and its derivatives, on the CPU and on a device. Generalized
// Jensen-Shannon (Agarwal et al., arXiv:2306.13649): of the mixture m = (1 - beta) model + beta teacher,
// beta KL(teacher, m) + (1 - beta) KL(model, m); 0 and 1 are its limits, KL(teacher, model) and KL(model,
// teacher).
#pragma once

#include <cmath>

#include "tidepool/objective.h"

namespace tidepool {

// One token's part of the divergence, and its derivative by the logarithm of the model's probability, less
// what all tokens have in common: the probabilities sum to 1.
struct TokenDivergence {
  double loss = 0, derivative = 0;
};

// The functions are templates, so that device code may call them.
template <class T>
constexpr TokenDivergence token_divergence(T beta, T log_teacher, T log_model) {
  const T teacher = exp(log_teacher), model = exp(log_model);
  if (beta == 0) return {teacher * (log_teacher - log_model), -teacher};
  if (beta == 1) {
    const T loss = model * (log_model - log_teacher);
    return {loss, loss};
  }
  const T log_mixture = log((1 - beta) * model + beta * teacher);
  const T of_model = model == 0 ? T{0} : (1 - beta) * model * (log_model - log_mixture);
  // Not a product with 0, where a probability is too small for a number.
  const T of_teacher = teacher == 0 ? T{0} : beta * teacher * (log_teacher - log_mixture);
  return {of_teacher + of_model, of_model};
}

// RETURNS: what all other tokens have together. Sums of probabilities in fp32 are no closer to 1.
inline constexpr double remainder_least = 1e-7;
template <class T>
constexpr T remainder_of(T sum) {
  return sum < 1 - T{remainder_least} ? 1 - sum : T{remainder_least};
}

}  // namespace tidepool
