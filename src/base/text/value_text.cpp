#include "base/text/value_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/text/lowercase.h"

namespace tidepool {

namespace {

struct SizeUnit {
  std::string_view name;
  u64 bytes;
};
constexpr std::array<SizeUnit, 9> size_units = {{{"TiB", 1024 * gib},
                                                 {"GiB", gib},
                                                 {"MiB", mib},
                                                 {"KiB", kib},
                                                 {"TB", 1'000'000'000'000},
                                                 {"GB", 1'000'000'000},
                                                 {"MB", 1'000'000},
                                                 {"KB", 1'000},
                                                 {"B", 1}}};

std::string without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between_digits =
        i > 0 && i + 1 < text.size() && std::isdigit(text[i - 1] & 0xff) && std::isdigit(text[i + 1] & 0xff);
    if (text[i] != '_' || !between_digits) out += text[i];
  }
  return out;
}

}  // namespace

Result<double> parse_real(std::string_view text) {
  std::string digits = without_underscores(text);
  if (digits.starts_with('+')) digits.erase(0, 1);
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, fault] = std::from_chars(digits.data(), end, value);
  if (fault == std::errc::result_out_of_range) return reason("is too large or too small");
  if (fault != std::errc{} || stop != end) return reason("is not a number");
  if (!std::isfinite(value)) return reason("must be finite");
  return value;
}

Result<u64> parse_integer(std::string_view text) {
  const std::string digits = without_underscores(text);
  u64 value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, fault] = std::from_chars(digits.data(), end, value);
  if (fault == std::errc{} && stop == end) return value;
  if (fault == std::errc::result_out_of_range) return reason("is too large");

  // "1e6" and "-1" reach this line: the first is accepted, the second has an error message of its own.
  const Result<double> real = parse_real(text);
  if (!real) return reason("is not a whole number");
  if (*real < 0) return reason("is negative");
  if (*real != std::floor(*real) || *real > 0x1p53) return reason("is not a whole number");
  return static_cast<u64>(*real);
}

Result<u64> parse_count(std::string_view text) {
  constexpr std::pair<char, double> units[] = {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}};
  for (const auto& [letter, factor] : units) {
    if (text.empty() || std::toupper(static_cast<unsigned char>(text.back())) != letter) continue;
    TRY_ASSIGN(const double value, parse_real(text.substr(0, text.size() - 1)));
    if (value < 0) return reason("is negative");
    if (value * factor > 0x1p53) return reason("is too large");
    return static_cast<u64>(std::llround(value * factor));
  }
  return parse_integer(text);
}

Result<bool> parse_boolean(std::string_view text) {
  const std::string word = lowercase(text);
  for (std::string_view yes : {"true", "yes", "on"}) {
    if (word == yes) return true;
  }
  for (std::string_view no : {"false", "no", "off"}) {
    if (word == no) return false;
  }
  return reason("is not true or false");
}

Result<Bytes> parse_size(std::string_view text) {
  const size_t digits = std::min(text.size(), text.find_last_of("0123456789.") + 1);
  std::string_view number = text.substr(0, digits);
  std::string_view unit = text.substr(digits);
  while (unit.starts_with(' ')) unit.remove_prefix(1);

  const Result<double> value = parse_real(number);
  if (!value) return reason("is not a size; write it like 20GiB or 500MB");
  if (*value < 0) return reason("is negative");
  if (unit.empty() && *value == 0) return Bytes{0};
  if (unit.empty()) return reason(fmt::format("has no unit; write {}GiB (or MiB, KiB, GB, MB)", number));
  for (const SizeUnit& known : size_units) {
    if (lowercase(unit) != lowercase(known.name)) continue;
    const Result<u64> whole = parse_integer(number);
    if (whole && *whole <= ~u64{0} / known.bytes) return Bytes{*whole * known.bytes};
    const double bytes = std::floor(*value * static_cast<double>(known.bytes));
    if (bytes >= 0x1p63) return reason("is too large");
    return Bytes{static_cast<u64>(bytes)};
  }
  return reason(
      fmt::format("has the unknown unit '{}'; use KiB MiB GiB TiB (1024) or KB MB GB TB (1000)", unit));
}

std::string format_real(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

std::string format_size(Bytes bytes) {
  const auto divides = [&](const SizeUnit& unit) {
    return bytes.value >= unit.bytes && bytes.value % unit.bytes == 0;
  };
  const auto said = [&](const SizeUnit& unit) {
    return fmt::format("{}{}", bytes.value / unit.bytes, unit.name);
  };
  for (const SizeUnit& unit : size_units)
    if (unit.name == "GB" && divides(unit)) return said(unit);  // 5GB has no short form in powers of 1024
  for (const SizeUnit& unit : size_units) {
    const bool binary = unit.name.size() == 3 || unit.bytes == 1;
    if (binary && divides(unit)) return said(unit);
  }
  return "0";
}

}  // namespace tidepool
