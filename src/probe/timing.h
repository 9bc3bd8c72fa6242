// Timing functions that all measurements share.
#pragma once

#include "base/steady_seconds.h"
#include "base/types.h"

namespace tidepool {

template <class Fn>
double seconds_of(Fn&& fn) {
  const double begin = steady_seconds();
  fn();
  return steady_seconds() - begin;
}

// Work per second of calls one after the other, for at least `seconds`; `work` is the work of one call.
template <class Fn>
double rate_of(double work, double seconds, Fn&& fn) {
  const double begin = steady_seconds();
  double took = 0;
  u64 calls = 0;
  do {
    fn();
    ++calls;
    took = steady_seconds() - begin;
  } while (took < seconds);
  return work * static_cast<double>(calls) / took;
}

}  // namespace tidepool
