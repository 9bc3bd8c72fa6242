// What everything that measures shares.
#pragma once

#include <chrono>

#include "tidepool/types.h"

namespace tidepool {

inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Fn>
double seconds_of(Fn&& fn) {
  const double begin = now_seconds();
  fn();
  return now_seconds() - begin;
}

// Of calls one after the other, for at least `seconds`: `work` is that of one call.
template <class Fn>
double rate_of(double work, double seconds, Fn&& fn) {
  const double begin = now_seconds();
  double took = 0;
  u64 calls = 0;
  do {
    fn();
    ++calls;
    took = now_seconds() - begin;
  } while (took < seconds);
  return work * static_cast<double>(calls) / took;
}

}  // namespace tidepool
