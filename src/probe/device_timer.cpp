#include "probe/device_timer.h"

#include <algorithm>
#include <cmath>

#include "base/steady_seconds.h"

namespace tidepool {
namespace {

constexpr u64 calls_max = u64{1} << 20;

}  // namespace

Clock steady_clock() {
  return [] { return steady_seconds(); };
}

// Increases the number of calls until they take a slice.
Result<double> DeviceTimer::rate(double work, const std::function<void()>& call) const {
  constexpr u64 growth_max = 16;
  for (u64 calls = 1;;) {
    const double begin = now();
    for (u64 i = 0; i < calls; ++i) call();
    TRY(device.wait());
    const double took = now() - begin;
    if (took > 0 && (took >= slice_seconds || calls >= calls_max))
      return work * static_cast<double>(calls) / took;
    const double wanted = took > 0 ? std::ceil(1.1 * static_cast<double>(calls) * slice_seconds / took) : 1e9;
    calls = std::clamp(static_cast<u64>(std::min(wanted, 1e9)), calls + 1, growth_max * calls);
  }
}

}  // namespace tidepool
