#include "base/json/json_check.h"

#include <fmt/format.h>

#include <boost/json/basic_parser_impl.hpp>
#include <utility>

#include "base/types.h"

namespace tidepool {
namespace json = boost::json;
namespace {

struct IgnoringHandler {
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);
  using Code = json::error_code;
  using Text = json::string_view;

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) { return true; }
  bool on_object_end(std::size_t, Code&) { return true; }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(std::size_t, Code&) { return true; }
  bool on_key_part(Text, std::size_t, Code&) { return true; }
  bool on_key(Text, std::size_t, Code&) { return true; }
  bool on_string_part(Text, std::size_t, Code&) { return true; }
  bool on_string(Text, std::size_t, Code&) { return true; }
  bool on_number_part(Text, Code&) { return true; }
  bool on_int64(std::int64_t, Text, Code&) { return true; }
  bool on_uint64(std::uint64_t, Text, Code&) { return true; }
  bool on_double(double, Text, Code&) { return true; }
  bool on_bool(bool, Code&) { return true; }
  bool on_null(Code&) { return true; }
  bool on_comment_part(Text, Code&) { return true; }
  bool on_comment(Text, Code&) { return true; }
};

}  // namespace

struct JsonCheck::Parser {
  ErrorKind kind;
  std::string file_name;
  json::basic_parser<IgnoringHandler> json{json::parse_options{}};
  u64 at = 0;  // offset in the text of the next piece

  Result<void> write(bool more, std::string_view piece) {
    json::error_code ec;
    const std::size_t used = json.write_some(more, piece.data(), piece.size(), ec);
    if (!ec && used < piece.size()) ec = json::error::extra_data;
    if (ec)
      return Error{kind,
                   fmt::format("{}: not valid JSON at byte {}: {}", file_name, at + used, ec.message())};
    at += used;
    return {};
  }
};

JsonCheck::JsonCheck(ErrorKind kind, std::string file_name)
    : parser_(new Parser{.kind = kind, .file_name = std::move(file_name)}) {}
JsonCheck::~JsonCheck() = default;

Result<void> JsonCheck::feed(std::string_view piece) { return parser_->write(true, piece); }
Result<void> JsonCheck::finish() { return parser_->write(false, {}); }

}  // namespace tidepool
