// Dual is a number with its derivatives by two others, the scores of a pair: losses are written once, and
// their gradients follow from the rules of differentiation.
#pragma once

#include <cmath>

namespace tidepool {

struct Dual {
  double value = 0;
  double by_chosen = 0, by_rejected = 0;

  // RETURNS: f(this), where f has the value and the derivative given at this number.
  constexpr Dual chain(double of_value, double derivative) const {
    return {of_value, derivative * by_chosen, derivative * by_rejected};
  }
};

constexpr Dual operator+(Dual x, Dual y) {
  return {x.value + y.value, x.by_chosen + y.by_chosen, x.by_rejected + y.by_rejected};
}
constexpr Dual operator*(double c, Dual x) { return {c * x.value, c * x.by_chosen, c * x.by_rejected}; }
constexpr Dual operator-(Dual x, Dual y) { return x + -1.0 * y; }
constexpr Dual operator-(Dual x) { return -1.0 * x; }
constexpr Dual operator+(Dual x, double c) { return {x.value + c, x.by_chosen, x.by_rejected}; }
constexpr Dual operator-(Dual x, double c) { return x + -c; }
constexpr Dual operator-(double c, Dual x) { return -x + c; }
constexpr Dual operator*(Dual x, Dual y) {
  return {x.value * y.value, x.value * y.by_chosen + y.value * x.by_chosen,
          x.value * y.by_rejected + y.value * x.by_rejected};
}
constexpr Dual square(Dual x) { return x * x; }
constexpr Dual relu(Dual x) { return x.value > 0 ? x : Dual{}; }

// The functions of values below are templates, so that device code may call them.
template <class T>
constexpr T sigmoid_of(T x) {
  return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}
template <class T>
constexpr T log_sigmoid_of(T x) {
  return (x < 0 ? x : T{0}) - log1p(exp(x < 0 ? x : -x));
}
template <class T>
constexpr T log1mexp_of(T x) {  // log(1 - exp(x)), x < 0
  return x > T{-0.693147180559945309} ? log(-expm1(x)) : log1p(-exp(x));
}

constexpr Dual sigmoid(Dual x) {
  const double s = sigmoid_of(x.value);
  return x.chain(s, s * sigmoid_of(-x.value));
}
constexpr Dual log_sigmoid(Dual x) { return x.chain(log_sigmoid_of(x.value), sigmoid_of(-x.value)); }
constexpr Dual exponential(Dual x) {
  const double e = exp(x.value);
  return x.chain(e, e);
}
constexpr Dual log1mexp(Dual x) { return x.chain(log1mexp_of(x.value), 1 / -expm1(-x.value)); }

}  // namespace tidepool
