// Overloaded lets std::visit take one lambda per type.
#pragma once

namespace tidepool {

// Overloaded makes one callable of several lambdas, for std::visit.
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace tidepool
