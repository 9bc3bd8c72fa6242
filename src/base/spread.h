// Spread is the range of a value that was measured several times. It decides which figures may be printed.
#pragma once

#include <algorithm>

namespace tidepool {

struct Spread {
  double least = 0, most = 0;  // 0: not measured

  bool known() const { return least > 0; }
  // True if the values differ by more than a tenth: too much to print one figure.
  bool wide() const { return most > 1.1 * least; }
  void add(double value) {
    if (value <= 0) return;
    least = known() ? std::min(least, value) : value;
    most = std::max(most, value);
  }
  void add(const Spread& other) {
    if (!other.known()) return;
    add(other.least);
    add(other.most);
  }
  bool operator==(const Spread&) const = default;
};

}  // namespace tidepool
