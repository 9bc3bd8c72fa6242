#include "probe/measured_device.h"

#include <algorithm>
#include <cmath>

#include "base/steady_seconds.h"
#include "kernels/uniform_values.h"
#include "probe/timing.h"

namespace tidepool {
namespace {

const MeasuredGpus* registered = nullptr;

constexpr u64 fill_piece_bytes = 16 * mib;
constexpr u64 calls_max = u64{1} << 20;

}  // namespace

void register_measured_gpus(const MeasuredGpus& gpus) { registered = &gpus; }
const MeasuredGpus* measured_gpus() { return registered; }

Clock steady_clock() {
  return [] { return steady_seconds(); };
}

Result<void> fill_device(MeasuredDevice& device, std::span<std::byte> memory, Precision precision,
                         float scale) {
  const std::span<std::byte> host =
      device.host_memory().first(std::min({device.host_memory().size(), memory.size(), fill_piece_bytes}));
  make_uniform(host, precision, scale);
  for (u64 at = 0; at < memory.size(); at += host.size()) {
    const u64 bytes = std::min(host.size(), memory.size() - at);
    device.copy_h2d(memory.subspan(at, bytes), host.first(bytes));
  }
  return device.wait();
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
