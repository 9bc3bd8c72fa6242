// Rates holds the samples of each rate (and of a few durations), in the order in which rates were first
// measured.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace tidepool {

enum class SampleUnit : u8 { bytes_per_s, flops_per_s, seconds };

// "12.3 GB/s", "131 GFLOP/s", "4.12 us": three digits, for people.
std::string sample_text(SampleUnit, double);

inline constexpr double spread_wide = 1.3;

struct MeasuredRate {
  std::string key;   // key in the machine file, "copies.h2d"; or a key of our own, "layer"
  std::string what;  // for people: "copies, host to device"
  SampleUnit unit = SampleUnit::bytes_per_s;
  std::vector<double> samples;

  // REQUIRES: samples.
  double median() const;
  double least() const;
  double most() const;
  // Most over least. Rounds of an idle machine agree within a few percent: a rate with a larger spread than
  // spread_wide was measured beside other work, or while the CPU changed its clock.
  double spread() const { return most() / least(); }
  bool is_wide() const { return !(spread() <= spread_wide); }
};

class Rates {
 public:
  // REQUIRES: the same key always comes with the same text and unit.
  void add(std::string_view key, std::string_view what, SampleUnit unit, double value);

  const MeasuredRate* find(std::string_view key) const;  // nullptr: not measured
  double median(std::string_view key) const;             // REQUIRES: measured
  const std::deque<MeasuredRate>& all() const { return rates_; }

 private:
  std::deque<MeasuredRate> rates_;
};

}  // namespace tidepool
