#include "base/text/rate_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/text/lowercase.h"
#include "base/text/value_text.h"

namespace tidepool {

namespace {

struct Prefix {
  std::string_view name;
  int exponent;       // power of ten
  double factor = 1;  // further factor: power of 1024
};
constexpr std::array<Prefix, 11> prefixes = {{{"p", 15},
                                              {"t", 12},
                                              {"g", 9},
                                              {"m", 6},
                                              {"k", 3},
                                              {"", 0},
                                              {"pi", 0, 0x1p50},
                                              {"ti", 0, 0x1p40},
                                              {"gi", 0, 0x1p30},
                                              {"mi", 0, 0x1p20},
                                              {"ki", 0, 0x1p10}}};
constexpr u64 decimal_prefixes = 6;
constexpr double nanos_max = 0x1p63;

std::string_view name_of(RateUnit unit) { return unit == RateUnit::bytes ? "B/s" : "FLOP/s"; }
std::string_view example_of(RateUnit unit) { return unit == RateUnit::bytes ? "12.3 GB/s" : "112 TFLOP/s"; }

struct Split {
  std::string_view number, unit;
};
// The number ends at its last digit or point: no unit contains either.
Split split(std::string_view text) {
  const size_t end = std::min(text.size(), text.find_last_of("0123456789.") + 1);
  std::string_view unit = text.substr(end);
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  return {text.substr(0, end), unit};
}

// Prefix of "b/s" or "flop/s"; nullptr if the text is another unit.
const Prefix* prefix_of(std::string_view text, RateUnit unit) {
  std::string word = lowercase(text);
  if (unit == RateUnit::flops && word.ends_with("flops")) word.replace(word.size() - 1, 1, "/s");
  const std::string end = lowercase(name_of(unit));
  if (!word.ends_with(end)) return nullptr;
  word.resize(word.size() - end.size());
  const auto found = std::ranges::find(prefixes, word, &Prefix::name);
  return found == prefixes.end() ? nullptr : &*found;
}

// Correctly rounded: "53.5" and exponent 9 are parsed as 53.5e9, not multiplied.
Result<double> with_exponent(std::string_view number, int exponent) {
  if (exponent != 0 && number.find_first_of("eE") == std::string_view::npos)
    return parse_real(fmt::format("{}e{}", number, exponent));
  TRY_ASSIGN(const double value, parse_real(number));
  return value * std::pow(10.0, exponent);
}

}  // namespace

Result<double> parse_rate(std::string_view text, RateUnit unit) {
  const Split parts = split(text);
  if (!parse_real(parts.number))
    return reason(fmt::format("is not a rate; write it like {}", example_of(unit)));
  const Prefix* prefix = parts.unit.empty() ? &prefixes[decimal_prefixes - 1] : prefix_of(parts.unit, unit);
  if (prefix == nullptr)
    return reason(fmt::format("has the unknown unit '{}'; write it like {}", parts.unit, example_of(unit)));
  TRY_ASSIGN(double value, with_exponent(parts.number, prefix->exponent));
  value *= prefix->factor;
  if (value < 0) return reason("is negative");
  if (!std::isfinite(value)) return reason("is too large");
  if (parts.unit.empty() && value != 0)
    return reason(fmt::format("has no unit; write it like {}", example_of(unit)));
  return value;
}

std::string format_rate(double per_second, RateUnit unit) {
  CHECK(std::isfinite(per_second) && per_second >= 0, per_second);
  if (per_second == 0) return "0";
  for (const Prefix& prefix : std::span(prefixes).first(decimal_prefixes)) {
    if (per_second < std::pow(10.0, prefix.exponent)) continue;
    // Few digits are tried first: the division may change the last digit.
    for (int digits = 1; digits <= 17; ++digits) {
      const std::string number = fmt::format("{:.{}g}", per_second / std::pow(10.0, prefix.exponent), digits);
      if (number.find('e') != std::string::npos) continue;
      std::string name(prefix.name);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
      std::string text = fmt::format("{} {}{}", number, name, name_of(unit));
      if (const auto back = parse_rate(text, unit); back && *back == per_second) return text;
    }
  }
  return fmt::format("{} {}", format_real(per_second), name_of(unit));
}

Result<Nanos> parse_duration(std::string_view text) {
  const Split parts = split(text);
  if (!parse_real(parts.number)) return reason("is not a duration; write it like 5 us");
  constexpr std::array<std::pair<std::string_view, int>, 5> units = {
      {{"", 0}, {"ns", 0}, {"us", 3}, {"ms", 6}, {"s", 9}}};
  const auto found =
      std::ranges::find(units, lowercase(parts.unit), &std::pair<std::string_view, int>::first);
  if (found == units.end())
    return reason(fmt::format("has the unknown unit '{}'; use ns, us, ms or s", parts.unit));
  TRY_ASSIGN(const double nanos, with_exponent(parts.number, found->second));
  if (nanos < 0) return reason("is negative");
  if (nanos >= nanos_max) return reason("is too long");
  if (parts.unit.empty() && nanos != 0) return reason("has no unit; use ns, us, ms or s");
  return Nanos{static_cast<u64>(std::llround(nanos))};
}

std::string format_duration(Nanos nanos) {
  constexpr std::array<std::pair<u64, std::string_view>, 3> units = {
      {{1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}}};
  for (const auto& [unit, name] : units) {
    if (nanos.value < unit) continue;
    // Whole-number arithmetic: 23100 ns are exactly 23.1 us.
    std::string text =
        fmt::format("{}.{:0{}}", nanos.value / unit, nanos.value % unit, std::to_string(unit).size() - 1);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
    return fmt::format("{} {}", text, name);
  }
  return fmt::format("{} ns", nanos.value);
}

}  // namespace tidepool
