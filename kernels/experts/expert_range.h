// ExpertRange is a run of consecutive experts, whose weights a group of a layer's experts holds.
#pragma once

#include "base/types.h"

namespace tidepool {

struct ExpertRange {
  u32 first = 0, count = 0;

  constexpr bool holds(i32 expert) const {
    return static_cast<u32>(expert) - first < count;  // below `first` it wraps around
  }
  bool operator==(const ExpertRange&) const = default;
};

// Upper bound of the rows that R tokens of k choices have in a range of this many experts: a token chooses an
// expert at most once.
constexpr u64 routed_rows_max(u64 rows, u64 chosen, u64 range_count) {
  return rows * (chosen < range_count ? chosen : range_count);
}
// Rows if routing were even: costs count these.
constexpr u64 routed_rows_expected(u64 rows, u64 chosen, u64 range_count, u64 experts) {
  return div_up(rows * chosen * range_count, experts);
}

}  // namespace tidepool
