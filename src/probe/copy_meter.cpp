#include <thread>

#include "base/check.h"
#include "base/process/start_thread.h"
#include "probe/meter.h"
#include "probe/timing.h"

namespace tidepool {
namespace {

class CopyMeter final : public Meter {
 public:
  CopyMeter(Device& device, const CopyMeterOptions& options)
      : device_(device), work_(options.work), timer_{device, options.now, options.slice_seconds} {
    CHECK(
        device.memory().size() >= work_.memory().value && device.host_memory().size() >= work_.memory().value,
        device.memory().size(), device.host_memory().size());
  }

  Result<void> measure(Rates& rates) override {
    TRY_ASSIGN(const double h2d, rate(CopyDirection::h2d));
    TRY_ASSIGN(const double d2h, rate(CopyDirection::d2h));
    TRY_ASSIGN(const double both, device_.facts().gpu ? rate(CopyDirection::both) : both_on_cores());
    rates.add("copies.h2d", "copies, host to device", SampleUnit::bytes_per_s, h2d);
    rates.add("copies.d2h", "copies, device to host", SampleUnit::bytes_per_s, d2h);
    rates.add("copies.both", "both at once, sum", SampleUnit::bytes_per_s, both);
    return {};
  }

 private:
  double bytes() const { return static_cast<double>(work_.bytes.value); }
  // Copies use the end of the memory: operands of products lie at its beginning, and the host's zeros must
  // not overwrite them.
  void copy(CopyDirection way) {
    issue_copies(device_, device_.memory().last(work_.memory().value), work_, way);
  }

  Result<double> rate(CopyDirection way) {
    return timer_.rate((way == CopyDirection::both ? 2 : 1) * bytes(), [&] { copy(way); });
  }

  // A copy on cores blocks, so each way has a thread. Both work for the same time, so their rates add up.
  Result<double> both_on_cores() {
    const auto alone = [&](CopyDirection way) {
      return rate_of(bytes(), timer_.slice_seconds, [&] { copy(way); });
    };
    double down = 0;
    TRY_ASSIGN(std::thread other, start_thread("tp-copy", [&] { down = alone(CopyDirection::d2h); }));
    const double up = alone(CopyDirection::h2d);
    other.join();
    return up + down;
  }

  Device& device_;
  const CopyWork work_;
  const DeviceTimer timer_;
};

}  // namespace

std::unique_ptr<Meter> create_copy_meter(Device& device, const CopyMeterOptions& options) {
  return std::make_unique<CopyMeter>(device, options);
}

}  // namespace tidepool
