// Spread of values that were measured several times: it decides which figures may be printed.
#pragma once

#include <algorithm>

namespace tidepool {

struct Spread {
  double least = 0, most = 0;  // 0: not measured

  bool known() const { return least > 0; }
  // Too far apart for one figure: by more than a tenth.
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
