#include "probe/step/measure_peak.h"

#include <algorithm>

#include "base/steady_seconds.h"
#include "probe/fill_device.h"
#include "probe/products.h"

namespace tidepool {
namespace {

constexpr u32 calls_max = 50;
// With larger sides the rate hardly grows.
constexpr u64 side_of_cores = 1024, side_of_gpus = 8192, side_least = 64;

// Best time of a call: at least one, over about `seconds`, at most calls_max.
template <class Fn>
Result<double> best_seconds_of(double seconds, Fn&& fn) {
  TRY(fn());
  double best = 1e30;
  const double begin = steady_seconds();
  u32 calls = 0;
  do {
    const double at = steady_seconds();
    TRY(fn());
    best = std::min(best, steady_seconds() - at);
  } while (++calls < calls_max && steady_seconds() - begin < seconds);
  return best;
}

}  // namespace

Result<double> measure_peak(Session& session, const Sampling& sampling) {
  Device& device = session.devices().at(0);  // alike: the peak of each
  const Precision precision = session.graph().activations;
  const auto bytes = [&](u64 n) { return values_bytes(n * n, precision); };
  u64 n = device.facts().gpu ? side_of_gpus : side_of_cores;
  while (n > side_least && 3 * bytes(n) > device.memory().size()) n /= 2;
  if (3 * bytes(n) > device.memory().size()) return 0.0;
  TRY(fill_device(device, device.memory().first(2 * bytes(n)), precision, 0.5f));
  const Matmul product = square_product(static_cast<u32>(n), {device.memory().data(), precision});
  TRY_ASSIGN(const double seconds, best_seconds_of(sampling.peak_seconds, [&] {
               device.kernels().matmul(product);
               return device.wait();
             }));
  return 2.0 * static_cast<double>(n * n * n) / seconds;
}

double peak_at_end(Session& session, const Prediction& prediction, const Sampling& sampling) {
  if (prediction.seconds.empty()) return 0;
  const Result<double> peak = measure_peak(session, sampling);
  return peak ? *peak : 0;
}

}  // namespace tidepool
