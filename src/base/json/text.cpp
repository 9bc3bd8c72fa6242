// JSON writer for people, and a parser that keeps every bit of a double.
#include "base/json/text.h"

#include <fmt/format.h>

#include <bit>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_stack.hpp>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/json/large_integers.h"

namespace tidepool {
namespace json = boost::json;
namespace {

bool is_leaf(const json::value& v) { return !v.is_object() && !v.is_array(); }

bool all_leaves(const json::array& array) {
  for (const json::value& v : array) {
    if (!is_leaf(v)) return false;
  }
  return true;
}

class Writer {
 public:
  explicit Writer(JsonStyle style) : pretty_(style == JsonStyle::pretty) {}

  void value(const json::value& v) {
    if (v.is_object()) return object(v.get_object());
    if (v.is_array()) return array(v.get_array());
    out_ += v.is_double() ? json_number(v.get_double()) : json::serialize(v);
  }

  std::string take() { return std::move(out_); }

 private:
  void object(const json::object& object) {
    open('{');
    bool first = true;
    for (const auto& [key, v] : object) {
      separate(first, pretty_);
      out_ += json::serialize(json::value(key));
      out_ += ": ";
      value(v);
    }
    close('}', pretty_ && !first);
  }

  void array(const json::array& array) {
    const bool breaks = pretty_ && !all_leaves(array);
    open('[');
    bool first = true;
    for (const json::value& v : array) {
      separate(first, breaks);
      value(v);
    }
    close(']', breaks && !first);
  }

  void open(char c) {
    out_ += c;
    ++depth_;
  }
  void close(char c, bool breaks) {
    --depth_;
    if (breaks) new_line();
    out_ += c;
  }
  void separate(bool& first, bool breaks) {
    if (!first) out_ += breaks ? "," : ", ";
    if (breaks) new_line();
    first = false;
  }
  void new_line() {
    out_ += '\n';
    out_.append(2 * depth_, ' ');
  }

  bool pretty_;
  std::size_t depth_ = 0;
  std::string out_;
};

// The payload below these bits is an index into ExactJson::large.
constexpr u64 quiet_nan_bits = 0x7ff8'0000'0000'0000;

double standing_for(u64 place) { return std::bit_cast<double>(quiet_nan_bits + place); }

// ExactHandler builds the value. Boost's own parser (before 1.83) may get the last bit of a double wrong;
// from_chars does not. The text comes in one piece, so no key, string or number is ever split.
struct ExactHandler {
  static constexpr std::size_t max_object_size = json::object::max_size();
  static constexpr std::size_t max_array_size = json::array::max_size();
  static constexpr std::size_t max_key_size = json::string::max_size();
  static constexpr std::size_t max_string_size = json::string::max_size();
  using Code = json::error_code;
  using Text = json::string_view;

  bool on_document_begin(Code&) { return stack.reset(), true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) { return true; }
  bool on_object_end(std::size_t n, Code&) { return stack.push_object(n), true; }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(std::size_t n, Code&) { return stack.push_array(n), true; }
  bool on_key_part(Text s, std::size_t, Code&) { return stack.push_chars(s), true; }
  bool on_key(Text s, std::size_t, Code&) { return stack.push_key(s), true; }
  bool on_string_part(Text s, std::size_t, Code&) { return stack.push_chars(s), true; }
  bool on_string(Text s, std::size_t, Code&) { return stack.push_string(s), true; }
  bool on_number_part(Text, Code&) { return true; }
  bool on_int64(std::int64_t i, Text, Code&) { return stack.push_int64(i), true; }
  bool on_uint64(std::uint64_t i, Text s, Code& code) {
    return large ? push_large(s, code) : (stack.push_uint64(i), true);
  }
  bool on_double(double near, Text s, Code& code) {
    if (large && s.find_first_of(".eE") == Text::npos) return push_large(s, code);
    double exact = near;  // kept if the text exceeds the range of a double
    std::from_chars(s.data(), s.data() + s.size(), exact);
    return stack.push_double(exact), true;
  }
  bool on_bool(bool b, Code&) { return stack.push_bool(b), true; }
  bool on_null(Code&) { return stack.push_null(), true; }
  bool on_comment_part(Text, Code&) { return true; }
  bool on_comment(Text, Code&) { return true; }

  bool push_large(Text digits, Code& code) {
    if (digits.size() > large_integer_digits_max) {
      too_long = true;
      code = json::error::exponent_overflow;
      return false;
    }
    stack.push_double(standing_for(large->size()));
    large->emplace_back(digits);
    return true;
  }

  json::value_stack stack;
  std::vector<std::string>* large = nullptr;  // null: large integers become the nearest double
  bool too_long = false;                      // an integer of `large` has too many digits
};

Result<json::value> parse(std::string_view text, ErrorKind kind, std::string_view file_name,
                          std::vector<std::string>* large) {
  json::basic_parser<ExactHandler> parser{json::parse_options{}};
  parser.handler().large = large;
  json::error_code ec;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), ec);
  if (!ec && used < text.size()) ec = json::error::extra_data;
  if (parser.handler().too_long)
    return Error{kind, fmt::format("{}: the integer that ends at byte {} has more than {} digits", file_name,
                                   used, large_integer_digits_max)};
  if (ec) {
    return Error{kind, fmt::format("{}: not valid JSON at byte {}: {}", file_name, used, ec.message())};
  }
  return parser.handler().stack.release();
}

}  // namespace

std::string json_number(double d) {
  if (!std::isfinite(d)) return "null";
  std::string text = fmt::format("{}", d);
  // Without the point, most languages would read 5.0 back as an integer.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string json_text(const json::value& v, JsonStyle style) {
  Writer writer(style);
  writer.value(v);
  std::string text = writer.take();
  if (style == JsonStyle::pretty) text += '\n';
  return text;
}

Result<json::value> parse_json(std::string_view text, ErrorKind kind, std::string_view file_name) {
  return parse(text, kind, file_name, nullptr);
}

Result<ExactJson> parse_exact_json(std::string_view text, ErrorKind kind, std::string_view file_name) {
  ExactJson out;
  TRY_ASSIGN(out.value, parse(text, kind, file_name, &out.large));
  return out;
}

std::optional<size_t> large_integer(double number) {
  if (!std::isnan(number)) return std::nullopt;
  return std::bit_cast<u64>(number) - quiet_nan_bits;
}

}  // namespace tidepool
