// Python's two ways to format: text % values (also the filter `format`), and text.format(...).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "huggingface/jinja/filter_functions.h"
#include "huggingface/jinja/unicode.h"

namespace tidepool::jinja {

namespace {

constexpr i64 width_max = 1000;  // of a field, and of its digits behind the point

// How a field is written, in the words of both ways.
struct Form {
  std::string fill = " ";
  char align = '\0';                  // < > ^ =
  char sign = '-';                    // - + or a blank
  bool other = false, zeros = false;  // # and 0
  char group = '\0';                  // , or _
  i64 width = 0, precision = -1;
  char type = '\0';
};

// A byte of a format as errors show it.
char letter(char c) { return c > 0x20 && c < 0x7f ? c : '?'; }

std::string padded(std::string text, const Form& f, char align, std::string_view sign = "") {
  const i64 length = static_cast<i64>(count_code_points(text) + sign.size());
  const u64 room = f.width > length ? static_cast<u64>(f.width - length) : 0;
  std::string before, behind;
  const u64 left = align == '<' ? 0 : align == '^' ? room / 2 : room;
  for (u64 i = 0; i < room; ++i) (i < left ? before : behind) += f.fill;
  if (align == '=') return std::string(sign) + before + text;
  return before + std::string(sign) + text + behind;
}

std::string grouped(std::string digits, char group, size_t each) {
  const size_t end = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  for (size_t at = end; at > each;) {
    at -= each;
    digits.insert(at, 1, group);
  }
  return digits;
}

std::string sign_of(bool negative, char sign) {
  return negative ? "-" : sign == '-' ? "" : std::string(1, sign);
}

Result<std::string> integer_text(i64 value, const Form& f) {
  const char type = f.type == '\0' || f.type == 'i' || f.type == 'u' || f.type == 'n' ? 'd' : f.type;
  const u64 size = value < 0 ? ~static_cast<u64>(value) + 1 : static_cast<u64>(value);
  std::string digits, prefix;
  if (type == 'd') digits = fmt::format("{}", size);
  if (type == 'x' || type == 'X') digits = fmt::format("{:x}", size), prefix = "0x";
  if (type == 'o') digits = fmt::format("{:o}", size), prefix = "0o";
  if (type == 'b') digits = fmt::format("{:b}", size), prefix = "0b";
  if (digits.empty()) return fault(fmt::format("an integer has no format '{}'", letter(type)));
  if (f.precision > static_cast<i64>(digits.size()))
    digits.insert(0, static_cast<size_t>(f.precision) - digits.size(), '0');
  if (f.group != '\0') digits = grouped(std::move(digits), f.group, type == 'd' ? 3 : 4);
  std::string sign = sign_of(value < 0, f.sign);
  if (f.other) sign += prefix;
  if (type == 'X')
    std::ranges::transform(digits, digits.begin(), ::toupper),
        std::ranges::transform(sign, sign.begin(), ::toupper);
  return padded(std::move(digits), f, f.align == '\0' ? '>' : f.align, sign);
}

Result<std::string> real_text_of(double value, const Form& f) {
  char type = f.type;
  const bool upper_case = type == 'E' || type == 'F' || type == 'G';
  i64 precision = f.precision < 0 ? 6 : f.precision;
  const double size = std::abs(value);
  std::string digits;
  if (!std::isfinite(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
  } else if (type == '\0' && f.precision < 0) {
    digits = real_text(size);
  } else if (type == 'e' || type == 'E') {
    digits = fmt::format("{:.{}e}", size, precision);
  } else if (type == 'f' || type == 'F') {
    digits = fmt::format("{:.{}f}", size, precision);
  } else if (type == '%') {
    digits = fmt::format("{:.{}f}%", size * 100, precision);
  } else if (type == 'g' || type == 'G' || type == 'n') {
    digits = f.other ? fmt::format("{:#.{}g}", size, std::max<i64>(precision, 1))
                     : fmt::format("{:.{}g}", size, std::max<i64>(precision, 1));
  } else if (type == '\0') {
    digits = fmt::format("{:.{}g}", size, std::max<i64>(precision, 1));
    if (digits.find_first_of(".e") == digits.npos) {
      // At least one digit stands behind the point; where the point needs the last digit, an exponent does.
      digits = static_cast<i64>(digits.size()) < precision
                   ? digits + ".0"
                   : fmt::format("{:.{}e}", size, std::max<i64>(precision - 1, 0));
    }
  } else {
    return fault(fmt::format("a float has no format '{}'", letter(type)));
  }
  if (f.group != '\0') digits = grouped(std::move(digits), f.group, 3);
  if (upper_case) digits = upper(digits);
  return padded(std::move(digits), f, f.align == '\0' ? '>' : f.align, sign_of(std::signbit(value), f.sign));
}

std::string ascii_repr(const Value& v) {
  const std::string text = to_repr(v);
  std::string out;
  u32 bytes = 1;
  for (u64 at = 0; at < text.size(); at += bytes) {
    const u32 c = code_point_at(text, at, &bytes);
    out += c < 0x80      ? text.substr(at, 1)
           : c < 0x100   ? fmt::format("\\x{:02x}", c)
           : c < 0x10000 ? fmt::format("\\u{:04x}", c)
                         : fmt::format("\\U{:08x}", c);
  }
  return out;
}

// Cursor over a format.
class Source {
 public:
  explicit Source(std::string_view text) : text_(text) {}
  bool done() const { return at_ >= text_.size(); }
  char now() const { return done() ? '\0' : text_[at_]; }
  std::string_view rest() const { return text_.substr(at_); }
  bool take(char c) { return now() == c && !done() && (++at_, true); }
  std::string_view take_bytes(u64 bytes) {
    const std::string_view out = text_.substr(at_, bytes);
    at_ += out.size();
    return out;
  }
  std::string_view take_until(std::string_view ends) {
    return take_bytes(std::min(rest().find_first_of(ends), rest().size()));
  }
  Result<i64> number() {
    const std::string_view digits =
        take_bytes(std::min(rest().find_first_not_of("0123456789"), rest().size()));
    const auto value = integer_in(digits);
    if (!value || *value > width_max)
      return fault(fmt::format("a width or precision of {} is more than {}", digits, width_max));
    return *value;
  }
  bool at_digit() const { return now() >= '0' && now() <= '9'; }

 private:
  std::string_view text_;
  u64 at_ = 0;
};

// Values of text % values, taken one by one or by name.
class Values {
 public:
  explicit Values(const Value& all) : all_(all) {}
  Result<Value> next() {
    if (named_) return fault("values are given by name and by place");
    if (all_.is_tuple()) {
      if (at_ >= all_.list()->size()) return fault("there are fewer values than places in the format");
      return (*all_.list())[at_++];
    }
    if (at_++ > 0) return fault("there are fewer values than places in the format");
    return all_;
  }
  Result<Value> named(std::string_view name) {
    named_ = true;
    const Value* found = all_.dict() ? all_.dict()->find(name) : nullptr;
    if (found == nullptr) return fault(fmt::format("there is no value named '{}'", name));
    return *found;
  }
  Result<void> check_all_taken() const {
    const size_t given = all_.is_tuple() ? all_.list()->size() : all_.dict() ? at_ : 1;
    if (!named_ && at_ < given) return fault("there are more values than places in the format");
    return {};
  }

 private:
  const Value& all_;
  size_t at_ = 0;
  bool named_ = false;
};

std::optional<double> real_of(const Value& v) {
  if (v.real()) return *v.real();
  if (v.boolean()) return *v.boolean() ? 1.0 : 0.0;
  if (v.integer()) return static_cast<double>(*v.integer());
  return std::nullopt;
}

Result<std::string> shown(const Value& v, char how, Work& work) {
  TRY_ASSIGN(std::string text, text_for(v, work));
  return how == 'r' ? to_repr(v) : how == 'a' ? ascii_repr(v) : text;
}

// One conversion of text % values, behind its sign %.
Result<std::string> percent_field(Source& in, Values& values, Work& work) {
  std::optional<Value> value;
  if (in.take('(')) {
    TRY_ASSIGN(value, values.named(in.take_until(")")));
    if (!in.take(')')) return fault("a name in the format is never closed with )");
  }
  Form f;
  while (true) {
    if (in.take('-')) {
      f.align = '<';
    } else if (in.take('0')) {
      f.zeros = true;
    } else if (in.take('+')) {
      f.sign = '+';
    } else if (in.take(' ')) {
      f.sign = f.sign == '+' ? '+' : ' ';
    } else if (in.take('#')) {
      f.other = true;
    } else {
      break;
    }
  }
  const auto given = [&](i64& into) -> Result<void> {
    if (!in.take('*')) {
      into = 0;
      if (in.at_digit()) {
        TRY_ASSIGN(into, in.number());
      }
      return {};
    }
    TRY_ASSIGN(const Value star, values.next());
    if (!star.integer() || *star.integer() > width_max || *star.integer() < -width_max)
      return fault(fmt::format("a width or precision must be an integer of at most {}", width_max));
    into = *star.integer();
    return {};
  };
  TRY(given(f.width));
  if (f.width < 0) f.align = '<', f.width = -f.width;
  if (in.take('.')) {
    TRY(given(f.precision));
    f.precision = std::max<i64>(f.precision, 0);
  }
  while (in.take('h') || in.take('l') || in.take('L')) {
  }
  if (in.done()) return fault("the format ends in an incomplete %");
  f.type = in.take_bytes(1)[0];
  if (f.type == '%') return std::string("%");
  if (!value) {
    TRY_ASSIGN(value, values.next());
  }
  if (value->is_undefined() && f.type != 's' && f.type != 'r') return undefined_fault(*value);
  if (f.type == 's' || f.type == 'r' || f.type == 'a') {
    TRY_ASSIGN(std::string text, shown(*value, f.type, work));
    if (f.precision >= 0) text.resize(byte_of_code_point(text, static_cast<u64>(f.precision)));
    return padded(std::move(text), f, f.align == '<' ? '<' : '>');
  }
  if (f.type == 'c') {
    std::string text;
    if (value->integer() && *value->integer() >= 0 && *value->integer() < 0xd800)
      append_code_point(text, static_cast<u32>(*value->integer()));
    if (value->text() && count_code_points(*value->text()) == 1) text = *value->text();
    if (text.empty()) return fault("%c takes one character");
    return padded(std::move(text), f, f.align == '<' ? '<' : '>');
  }
  if (f.zeros && f.align != '<') f.fill = "0", f.align = '=';
  constexpr std::string_view integers = "diuoxX", reals = "eEfFgG";
  if (integers.find(f.type) != integers.npos) {
    if (value->large_integer() && (f.type == 'd' || f.type == 'i' || f.type == 'u'))
      return padded(value->large_integer()->digits, f, f.align == '\0' ? '>' : f.align);
    if (value->real() && f.type != 'x' && f.type != 'X' && f.type != 'o' && std::abs(*value->real()) < 0x1p63)
      return integer_text(static_cast<i64>(*value->real()), f);
    if (value->boolean()) return integer_text(*value->boolean(), f);
    if (!value->integer()) return fault(fmt::format("%{} takes a number, not {}", f.type, type_name(*value)));
    return integer_text(*value->integer(), f);
  }
  if (reals.find(f.type) == reals.npos)
    return fault(fmt::format("the format %{} is unknown", letter(f.type)));
  const auto number = real_of(*value);
  if (!number) return fault(fmt::format("%{} takes a number, not {}", f.type, type_name(*value)));
  return real_text_of(*number, f);
}

// Format specification behind the colon in braces: [[fill]align][sign][#][0][width][group][.precision][type].
Result<Form> braces_form(std::string_view spec) {
  Form f;
  Source in(spec);
  constexpr std::string_view aligns = "<>^=";
  u32 bytes = 1;
  if (!spec.empty()) code_point_at(spec, 0, &bytes);
  if (spec.size() > bytes && aligns.find(spec[bytes]) != aligns.npos) {
    f.fill = std::string(in.take_bytes(bytes));
    f.align = in.take_bytes(1)[0];
  } else if (!in.done() && aligns.find(in.now()) != aligns.npos) {
    f.align = in.take_bytes(1)[0];
  }
  if (in.now() == '+' || in.now() == '-' || in.now() == ' ') {
    if (!in.done()) f.sign = in.take_bytes(1)[0];
  }
  f.other = in.take('#');
  if (in.take('0')) {
    f.zeros = true;
    if (f.align == '\0') f.fill = "0", f.align = '=';
  }
  if (in.at_digit()) {
    TRY_ASSIGN(f.width, in.number());
  }
  if (in.now() == ',' || in.now() == '_') f.group = in.take_bytes(1)[0];
  if (in.take('.')) {
    if (!in.at_digit()) return fault("the precision of a format is missing");
    TRY_ASSIGN(f.precision, in.number());
  }
  if (!in.done()) f.type = in.take_bytes(1)[0];
  if (!in.done()) return fault(fmt::format("the format '{}' is unknown", spec));
  return f;
}

Result<std::string> with_form(const Value& v, std::string_view spec, Work& work) {
  if (spec.empty()) return text_for(v, work);
  TRY_ASSIGN(Form f, braces_form(spec));
  constexpr std::string_view reals = "eEfFgG%";
  if (v.text()) {
    if ((f.type != '\0' && f.type != 's') || f.align == '=' || f.sign != '-' || f.other || f.group != '\0')
      return fault(fmt::format("a text has no format '{}'", spec));
    std::string text = *v.text();
    if (f.precision >= 0) text.resize(byte_of_code_point(text, static_cast<u64>(f.precision)));
    return padded(std::move(text), f, f.align == '\0' ? '<' : f.align);
  }
  if ((v.integer() || v.boolean()) && (f.type == '\0' || reals.find(f.type) == reals.npos)) {
    if (f.precision >= 0) return fault("an integer has no precision");
    if (f.type == 'c') return fault("the format 'c' is not supported");
    return integer_text(v.integer() ? *v.integer() : *v.boolean(), f);
  }
  if (const auto number = real_of(v)) return real_text_of(*number, f);
  return fault(fmt::format("a {} has no format '{}'", type_name(v), spec));
}

// Replacement fields of text.format(...): {} {0} {name.field[key]!r:spec}.
class Braces {
 public:
  explicit Braces(const Arguments& values) : values_(values) {}

  Result<std::string> run(std::string_view form, u32 depth = 0) {
    if (depth > 1) return fault("fields are nested too deeply");
    Source in(form);
    std::string out;
    while (!in.done()) {
      out += in.take_until("{}");
      if (in.done()) break;
      const char c = in.take_bytes(1)[0];
      if (in.take(c)) {
        out += c;
        continue;
      }
      if (c == '}') return fault("a single } stands in the format");
      TRY(values_.work.spend(1));
      TRY_ASSIGN(const std::string text, field(in, depth));
      out += text;
      TRY(values_.work.spend_bytes(text.size()));
      if (out.size() > Value::weight_max) return fault("the text becomes too long");
    }
    return out;
  }

 private:
  Result<std::string> field(Source& in, u32 depth) {
    TRY_ASSIGN(Value value, first(in.take_until(".[!:}")));
    while (in.now() == '.' || in.now() == '[') {
      if (in.take('.')) {
        const std::string_view name = in.take_until(".[!:}");
        if (!value.space() && value.look() != Look::group)
          return fault(fmt::format("a {} has no attribute '{}' in a format; write [{}]", type_name(value),
                                   name, name));
        value = attribute_of(value, name);
        continue;
      }
      in.take('[');
      const std::string_view key = in.take_until("]");
      if (!in.take(']')) return fault("a [ in the format is never closed");
      const auto place = integer_in(key);
      TRY_ASSIGN(value, item_of(value, place ? Value(*place) : Value(key), values_.work));
      if (value.is_undefined()) return undefined_fault(value);
    }
    char conversion = '\0';
    if (in.take('!')) {
      if (in.done()) return fault("the format ends in a field");
      conversion = in.take_bytes(1)[0];
      if (conversion != 'r' && conversion != 's' && conversion != 'a')
        return fault(fmt::format("the conversion !{} is unknown", letter(conversion)));
    }
    std::string spec;
    if (in.take(':')) {
      u32 open = 0;
      std::string_view raw = in.rest();
      size_t end = 0;
      for (; end < raw.size() && (raw[end] != '}' || open > 0); ++end)
        open += raw[end] == '{' ? 1 : raw[end] == '}' ? ~0u : 0;
      TRY_ASSIGN(spec, run(in.take_bytes(end), depth + 1));
    }
    if (!in.take('}')) return fault("a { in the format is never closed");
    if (conversion == '\0') return with_form(value, spec, values_.work);
    TRY_ASSIGN(const std::string text, shown(value, conversion, values_.work));
    return with_form(Value(text), spec, values_.work);
  }

  Result<Value> first(std::string_view name) {
    std::optional<i64> place = name.empty() ? std::optional<i64>(next_) : std::nullopt;
    if (!name.empty() && name.find_first_not_of("0123456789") == name.npos) place = integer_in(name);
    next_ += name.empty();
    if (place) {
      if (static_cast<u64>(*place) >= values_.places.size())
        return fault("there are fewer values than places in the format");
      return values_.places[static_cast<size_t>(*place)];
    }
    const Value* found = values_.named(name);
    if (found == nullptr) return fault(fmt::format("there is no value named '{}'", name));
    return *found;
  }

  const Arguments& values_;
  i64 next_ = 0;
};

}  // namespace

Result<std::string> formatted(std::string_view form, const Value& all, Work& work) {
  Values values(all);
  Source in(form);
  std::string out;
  while (!in.done()) {
    out += in.take_until("%");
    if (!in.take('%')) break;
    TRY(work.spend(1));
    TRY_ASSIGN(const std::string text, percent_field(in, values, work));
    out += text;
    TRY(work.spend_bytes(text.size()));
    if (out.size() > Value::weight_max) return fault("the text becomes too long");
  }
  TRY(values.check_all_taken());
  return out;
}

Result<std::string> formatted_by_braces(std::string_view form, const Arguments& a) {
  return Braces(a).run(form);
}

}  // namespace tidepool::jinja
