#include "json/text.h"

#include <boost/json/parser.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>

#include "tidepool/check.h"

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

}  // namespace

std::string json_number(double d) {
  if (!std::isfinite(d)) return "null";
  std::string text = fmt::format("{}", d);
  // "5" would come back as an integer in most languages.
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
  json::parser parser;
  json::error_code ec;
  const std::size_t used = parser.write(text.data(), text.size(), ec);
  if (ec) {
    return Error{kind, fmt::format("{}: not valid JSON at byte {}: {}", file_name, used, ec.message())};
  }
  return parser.release();
}

}  // namespace tidepool
