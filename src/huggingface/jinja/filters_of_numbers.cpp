// Jinja's filters of numbers, and numbers as Python's int() and float() read them.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "huggingface/jinja/filter_functions.h"
#include "huggingface/jinja/unicode.h"

namespace tidepool::jinja {

namespace {

// A sign, digits and underscores between digits, as Python's int() reads them.
std::optional<std::string> plain_number(std::string_view text) {
  std::string out;
  text = strip(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto is_digit_at = [&](size_t i) {
    return i < text.size() && std::isxdigit(static_cast<unsigned char>(text[i]));
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || !is_digit_at(i - 1) || !is_digit_at(i + 1)) {
      return std::nullopt;
    }
  }
  if (out.empty() || out[0] == '+') return std::nullopt;
  return out;
}

template <class Number, class... More>
std::optional<Number> number_in(std::string_view text, More... more) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, more...);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Python's round(): to the nearest, half to even, of the exact value of the number.
Result<Value> rounded(double value, i64 precision) {
  if (!std::isfinite(value) || precision > 308) return Value(value);
  if (precision < -308) return Value(std::copysign(0.0, value));
  if (precision >= 0) {
    std::string text = fmt::format("{:.{}f}", value, precision);
    return Value(*number_in<double>(text));
  }
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return Value(std::nearbyint(value / unit) * unit);
}

Result<Value> rounded(i64 value, i64 precision) {
  if (precision >= 0) return Value(value);
  if (precision < -18) return Value(i64{0});
  i64 unit = 1;
  for (i64 i = 0; i < -precision; ++i) unit *= 10;
  const i64 rest = value % unit, down = value - rest;
  const i64 twice = std::abs(rest) - (unit - std::abs(rest));
  const bool away = twice > 0 || (twice == 0 && (down / unit) % 2 != 0);
  i64 out = down;
  if (away && __builtin_add_overflow(down, rest < 0 ? -unit : unit, &out))
    return fault("the rounded integer is too large for 64 bits");
  return Value(out);
}

}  // namespace

std::optional<i64> integer_in(std::string_view text, int base) {
  std::optional<std::string> plain = plain_number(text);
  if (!plain) return std::nullopt;
  const size_t sign = plain->starts_with('-') ? 1 : 0;
  for (const auto& [prefix, of] : {std::pair{"0x", 16}, std::pair{"0o", 8}, std::pair{"0b", 2}}) {
    if (base == of && lower(plain->substr(sign, 2)) == prefix) plain->erase(sign, 2);
  }
  return number_in<i64>(*plain, base);
}

std::optional<double> real_in(std::string_view text) {
  const std::optional<std::string> plain = plain_number(text);
  return plain ? number_in<double>(*plain) : std::nullopt;
}

Result<Value> filter_integer(const Value& v, const Arguments& a) {
  TRY(a.check({"default", "base"}));
  const Value* other = a.get(0, "default");
  const Value otherwise = other ? *other : Value(i64{0});
  TRY_ASSIGN(const i64 base, a.integer_or(1, "base", 10));
  if (base < 2 || base > 36) return fault("the base must be from 2 to 36");
  if (v.integer() || v.large_integer()) return v;
  if (v.boolean()) return Value(i64{*v.boolean()});
  if (v.is_undefined()) return undefined_fault(v);
  std::optional<double> real;
  if (v.real()) real = *v.real();
  if (v.text()) {
    if (const auto whole = integer_in(*v.text(), static_cast<int>(base))) return Value(*whole);
    real = real_in(*v.text());
  }
  if (!real || !std::isfinite(*real)) return otherwise;
  if (!(std::abs(*real) < 0x1p63)) return fault("the integer is too large for 64 bits");
  return Value(static_cast<i64>(*real));
}

Result<Value> filter_real(const Value& v, const Arguments& a) {
  TRY(a.check({"default"}));
  const Value* other = a.get(0, "default");
  if (v.is_undefined()) return undefined_fault(v);
  if (v.real()) return v;
  if (v.integer()) return Value(static_cast<double>(*v.integer()));
  if (v.boolean()) return Value(*v.boolean() ? 1.0 : 0.0);
  if (v.text()) {
    if (const auto real = real_in(*v.text())) return Value(*real);
  }
  return other ? *other : Value(0.0);
}

Result<Value> filter_absolute(const Value& v, const Arguments& a) {
  TRY(a.check({}));
  TRY_ASSIGN(const bool below, compare("<", v, Value(i64{0}), a.work));
  if (v.real()) return Value(std::abs(*v.real()));
  if (v.boolean()) return Value(i64{*v.boolean()});
  return below ? negative(v) : Result<Value>(v);
}

Result<Value> filter_round(const Value& v, const Arguments& a) {
  TRY(a.check({"precision", "method"}));
  TRY_ASSIGN(const i64 precision, a.integer_or(0, "precision", 0));
  TRY_ASSIGN(const std::string method, a.text_or(1, "method", "common"));
  if (method != "common" && method != "ceil" && method != "floor")
    return fault(fmt::format("method must be common, ceil or floor, not '{}'", method));
  const std::optional<i64> whole = v.integer()   ? std::optional<i64>(*v.integer())
                                   : v.boolean() ? std::optional<i64>(*v.boolean())
                                                 : std::nullopt;
  if (!whole && !v.real()) return fault(fmt::format("must be a number, not {}", type_name(v)));
  if (method == "common") return whole ? rounded(*whole, precision) : rounded(*v.real(), precision);
  if (precision > 300 || precision < -300) return fault("a precision beyond 300 is not supported");
  const double unit = std::pow(10.0, static_cast<double>(precision)),
               scaled = (whole ? static_cast<double>(*whole) : *v.real()) * unit;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

}  // namespace tidepool::jinja
