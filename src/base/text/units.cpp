#include "base/text/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace tidepool {
namespace {

constexpr double seconds_per_day = 86'400, days_per_year = 365.25;
constexpr double days_max = 400;  // more are hard to read

// Chooses the unit that leaves at most three digits before the point, rounding included.
template <std::size_t n>
std::string scaled(double value, double base, const std::array<std::string_view, n>& units) {
  std::size_t unit = 0;
  while (unit + 1 < n && value >= 999.5) {
    value /= base;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f}{}", value, units[0]);
  return significant_text(value) + std::string(units[unit]);
}

}  // namespace

std::string significant_text(double value) {
  if (!std::isfinite(value)) return "-";
  if (value == 0) return "0";
  if (std::fabs(value) >= 1e6) return fmt::format("{:.2e}", value);
  if (std::fabs(value) >= 999.5) return fmt::format("{:.0f}", value);
  // Digits are counted after rounding: 9.996 is 10.0, not 10.00.
  const double rounded = std::stod(fmt::format("{:.2e}", value));
  const int magnitude = static_cast<int>(std::floor(std::log10(std::fabs(rounded)) + 1e-12));
  return fmt::format("{:.{}f}", rounded, std::clamp(2 - magnitude, 0, 9));
}

std::string bytes_text(Bytes bytes) {
  constexpr std::array<std::string_view, 7> units = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  return scaled(static_cast<double>(bytes.value), 1024, units);
}

std::string counted_text(u64 count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string count_text(double count) {
  constexpr std::array<std::string_view, 5> units = {"", "k", "M", "B", "T"};
  if (!std::isfinite(count)) return "-";
  if (count > 0 && count < 99.5 && count != std::floor(count)) return significant_text(count);
  return scaled(count, 1000, units);
}

std::string seconds_text(double s) {
  if (!std::isfinite(s) || s < 0) return "-";
  if (s == 0) return "0 s";
  if (s < 1e-3) return significant_text(s * 1e6) + " us";
  if (s < 0.9995) return significant_text(s * 1e3) + " ms";
  if (s < 59.95) return significant_text(s) + " s";
  const u64 whole = static_cast<u64>(std::llround(s));
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  if (whole < 48 * 3600) return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
  if (s / seconds_per_day > days_max) return days_text(s);
  return fmt::format("{}d {:02}h", whole / 86400, whole / 3600 % 24);
}

std::string days_text(double seconds, u32 decimals) {
  const double days = seconds / seconds_per_day;
  if (days <= days_max) return fmt::format("{:.{}f} days", days, decimals);
  const double years = days / days_per_year;
  return fmt::format("{:.{}f} years", years, years < 100 ? 1 : 0);
}

std::string percent_text(double fraction) {
  if (!std::isfinite(fraction)) return "-";
  const double percent = 100 * fraction;
  if (percent > 0 && percent < 0.05) return "<0.1%";
  if (percent > 0 && percent < 0.95) return fmt::format("{:.1f}%", percent);
  return fmt::format("{:.0f}%", percent);
}

std::string ratio_text(double ratio) { return std::isfinite(ratio) ? fmt::format("{:.2f}", ratio) : "-"; }

namespace {

const char* not_finite_text(double value) { return std::isnan(value) ? "nan" : "inf"; }

}  // namespace

std::string loss_text(double loss) {
  return std::isfinite(loss) ? fmt::format("{:.4f}", loss) : not_finite_text(loss);
}
std::string perplexity_text(double perplexity) {
  if (!std::isfinite(perplexity)) return not_finite_text(perplexity);
  return perplexity < 1e5 ? fmt::format("{:.4g}", perplexity) : fmt::format("{:.2e}", perplexity);
}
std::string norm_text(double norm) {
  return std::isfinite(norm) ? significant_text(norm) : not_finite_text(norm);
}

namespace {
constexpr std::string_view and_word = " and ";
}

std::string binds_text(std::string_view binds) {
  return fmt::format("{} bind{}", binds, binds.find(and_word) == std::string_view::npos ? "s" : "");
}

bool is_bound_by(std::string_view binds, std::string_view resource) {
  const std::size_t at = binds.find(and_word);
  if (at == std::string_view::npos) return binds == resource;
  return binds.substr(0, at) == resource || binds.substr(at + and_word.size()) == resource;
}

}  // namespace tidepool
