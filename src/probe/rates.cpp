#include "probe/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/median.h"

namespace tidepool {

std::string sample_text(SampleUnit unit, double value) {
  constexpr std::array<const char*, 6> large = {"", "K", "M", "G", "T", "P"};
  constexpr std::array<const char*, 4> small = {"s", "ms", "us", "ns"};
  const bool time = unit == SampleUnit::seconds;
  u32 step = 0;
  const u32 steps_max = time ? small.size() - 1 : large.size() - 1;
  while (step < steps_max && (time ? value < 0.9995 : value >= 999.5)) {
    value *= time ? 1e3 : 1e-3;
    ++step;
  }
  const int digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  if (time) return fmt::format("{:.{}f} {}", value, digits, small[step]);
  return fmt::format("{:.{}f} {}{}", value, digits, large[step],
                     unit == SampleUnit::bytes_per_s ? "B/s" : "FLOP/s");
}

double MeasuredRate::median() const { return tidepool::median(samples); }
double MeasuredRate::least() const { return *std::ranges::min_element(samples); }
double MeasuredRate::most() const { return *std::ranges::max_element(samples); }

void Rates::add(std::string_view key, std::string_view what, SampleUnit unit, double value) {
  auto rate = std::ranges::find(rates_, key, &MeasuredRate::key);
  if (rate == rates_.end())
    rate = rates_.insert(rate, {.key = std::string(key), .what = std::string(what), .unit = unit});
  CHECK(rate->unit == unit && rate->what == what, rate->what);
  rate->samples.push_back(value);
}

const MeasuredRate* Rates::find(std::string_view key) const {
  const auto rate = std::ranges::find(rates_, key, &MeasuredRate::key);
  return rate == rates_.end() ? nullptr : &*rate;
}

double Rates::median(std::string_view key) const {
  const MeasuredRate* rate = find(key);
  CHECK(rate != nullptr);
  return rate->median();
}

}  // namespace tidepool
