// DeviceTimer times calls of a device, which may only queue their work.
#pragma once

#include <functional>

#include "executor/device.h"

namespace tidepool {

using Clock = std::function<double()>;  // seconds; tests pass their own
Clock steady_clock();

struct DeviceTimer {
  Device& device;
  Clock now;
  double slice_seconds = 0.02;  // least length of one sample: waiting for a GPU takes some 20 us by itself

  // Work per second of calls issued one after the other; `work` is the work of one call.
  Result<double> rate(double work, const std::function<void()>& call) const;
};

}  // namespace tidepool
