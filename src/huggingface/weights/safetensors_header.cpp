// Parses and writes the header. boost::json silently keeps the last of two equal keys, so the header is read
// with its streaming parser, which reports every key.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <limits>
#include <optional>
#include <unordered_set>

#include "base/check.h"
#include "huggingface/weights/safetensors.h"

namespace tidepool {
namespace json = boost::json;
namespace {

struct DtypeRow {
  std::string_view name;
  u64 bytes;
};
constexpr std::array<DtypeRow, 15> dtype_table = {{{"BOOL", 1},
                                                   {"U8", 1},
                                                   {"I8", 1},
                                                   {"F8_E5M2", 1},
                                                   {"F8_E4M3", 1},
                                                   {"I16", 2},
                                                   {"U16", 2},
                                                   {"F16", 2},
                                                   {"BF16", 2},
                                                   {"I32", 4},
                                                   {"U32", 4},
                                                   {"F32", 4},
                                                   {"I64", 8},
                                                   {"U64", 8},
                                                   {"F64", 8}}};
static_assert(dtype_table.size() == static_cast<u32>(Dtype::f64) + 1);

std::optional<Dtype> dtype_of(std::string_view name) {
  for (u32 i = 0; i < dtype_table.size(); ++i) {
    if (dtype_table[i].name == name) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

constexpr u32 dimensions_max = 16;

// Fills tensors from {"name": {"dtype": s, "shape": [n...], "data_offsets": [b, e]}, "__metadata__": {s: s}}.
// A method that returns false has stored the reason in `fault`.
class HeaderHandler {
 public:
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  std::vector<StoredTensor> tensors;
  std::string fault;

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }

  bool on_object_begin(json::error_code& ec) {
    if (in_array_ || depth_ == 2) return refuse(ec, "an unexpected object");
    if (++depth_ == 2) begin_entry();
    return true;
  }
  bool on_object_end(std::size_t, json::error_code& ec) {
    if (--depth_ == 1 && !in_metadata_) return end_tensor(ec);
    return true;
  }
  bool on_array_begin(json::error_code& ec) {
    const bool wanted =
        depth_ == 2 && !in_metadata_ && !in_array_ && (key_ == "shape" || key_ == "data_offsets");
    if (!wanted) return refuse(ec, "an unexpected list");
    in_array_ = true;
    numbers_.clear();
    return true;
  }
  bool on_array_end(std::size_t, json::error_code& ec) {
    in_array_ = false;
    if (key_ == "shape") {
      tensors.back().shape = numbers_;
      return true;
    }
    if (numbers_.size() != 2) return refuse(ec, "data_offsets needs two numbers");
    tensors.back().begin = numbers_[0];
    tensors.back().end = numbers_[1];
    return true;
  }

  bool on_key_part(json::string_view s, std::size_t, json::error_code&) { return gather(s); }
  bool on_key(json::string_view s, std::size_t, json::error_code& ec) {
    gather(s);
    key_ = std::move(text_);
    text_.clear();
    if (depth_ == 1) {
      if (!names_.insert(key_).second) return refuse(ec, fmt::format("\"{}\" appears twice", key_));
      return true;
    }
    if (!fields_.insert(key_).second) return refuse(ec, fmt::format("\"{}\" appears twice", key_));
    if (in_metadata_ || key_ == "dtype" || key_ == "shape" || key_ == "data_offsets") return true;
    return refuse(ec, fmt::format("unknown field \"{}\"", key_));
  }
  bool on_string_part(json::string_view s, std::size_t, json::error_code&) { return gather(s); }
  bool on_string(json::string_view s, std::size_t, json::error_code& ec) {
    gather(s);
    const std::string text = std::exchange(text_, {});
    if (depth_ == 2 && in_metadata_) return true;
    if (depth_ != 2 || in_array_ || key_ != "dtype") return refuse(ec, "an unexpected string");
    const std::optional<Dtype> dtype = dtype_of(text);
    if (!dtype) return refuse(ec, fmt::format("unknown dtype \"{}\"", text));
    tensors.back().dtype = *dtype;
    return true;
  }

  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(i64 n, json::string_view, json::error_code& ec) {
    if (n < 0) return refuse(ec, "a negative number");
    return number(static_cast<u64>(n), ec);
  }
  bool on_uint64(u64 n, json::string_view, json::error_code& ec) { return number(n, ec); }
  bool on_double(double, json::string_view, json::error_code& ec) {
    return refuse(ec, "a number that is not a whole number of 64 bits");
  }
  bool on_bool(bool, json::error_code& ec) { return refuse(ec, "an unexpected boolean"); }
  bool on_null(json::error_code& ec) { return refuse(ec, "an unexpected null"); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  bool gather(json::string_view s) {
    text_.append(s.data(), s.size());
    return true;
  }

  void begin_entry() {
    fields_.clear();
    in_metadata_ = key_ == "__metadata__";
    if (!in_metadata_) tensors.push_back({.name = key_});
  }

  bool end_tensor(json::error_code& ec) {
    if (fields_.size() != 3)
      return refuse(ec, fmt::format("tensor {}: needs dtype, shape and data_offsets", tensors.back().name));
    return true;
  }

  bool number(u64 n, json::error_code& ec) {
    if (!in_array_) return refuse(ec, "an unexpected number");
    if (numbers_.size() == dimensions_max) return refuse(ec, "more than 16 dimensions");
    numbers_.push_back(n);
    return true;
  }

  bool refuse(json::error_code& ec, std::string why) {
    const bool in_tensor = depth_ == 2 && !in_metadata_ && !tensors.empty();
    fault = in_tensor ? fmt::format("tensor {}: {}", tensors.back().name, why) : std::move(why);
    ec = json::error::syntax;
    return false;
  }

  u32 depth_ = 0;
  bool in_array_ = false;
  bool in_metadata_ = false;
  std::string key_;
  std::string text_;  // the key or string read so far
  std::vector<u64> numbers_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> fields_;
};

// RETURNS: bytes of a tensor with this shape; none on overflow.
std::optional<u64> bytes_of_shape(const StoredTensor& t) {
  u64 bytes = dtype_bytes(t.dtype);
  for (const u64 n : t.shape) {
    if (__builtin_mul_overflow(bytes, n, &bytes)) return std::nullopt;
  }
  return bytes;
}

std::string ranges_fault(std::span<const StoredTensor> tensors, u64 buffer_bytes) {
  u64 at = 0;
  for (const StoredTensor& t : tensors) {
    if (t.end < t.begin)
      return fmt::format("tensor {}: data_offsets [{}, {}] run backwards", t.name, t.begin, t.end);
    const std::optional<u64> bytes = bytes_of_shape(t);
    if (!bytes) return fmt::format("tensor {}: shape {} overflows 64 bits", t.name, shape_text(t.shape));
    if (*bytes != t.bytes()) {
      return fmt::format("tensor {}: shape {} of {} needs {} bytes, but data_offsets hold {}", t.name,
                         shape_text(t.shape), name(t.dtype), *bytes, t.bytes());
    }
    if (t.begin != at) {
      return fmt::format("tensor {}: starts at byte {} of the buffer, {} the tensor before it ends at {}",
                         t.name, t.begin, t.begin < at ? "overlapping:" : "leaving a hole:", at);
    }
    at = t.end;
  }
  if (at == buffer_bytes) return {};
  return fmt::format("the tensors need {} bytes, but the file holds {}: the file is {}", at, buffer_bytes,
                     at > buffer_bytes ? "truncated" : "followed by something else");
}

}  // namespace

std::string_view name(Dtype dtype) { return dtype_table[static_cast<u32>(dtype)].name; }
u64 dtype_bytes(Dtype dtype) { return dtype_table[static_cast<u32>(dtype)].bytes; }

std::string shape_text(std::span<const u64> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void assign_offsets(std::span<StoredTensor> tensors) {
  u64 at = 0;
  for (StoredTensor& t : tensors) {
    const std::optional<u64> bytes = bytes_of_shape(t);
    CHECK(bytes.has_value(), t.name);
    t.begin = at;
    at = t.end = at + *bytes;
  }
}

std::string safetensors_header(std::span<const StoredTensor> tensors) {
  json::object root;
  root["__metadata__"] = {{"format", "pt"}};
  for (const StoredTensor& t : tensors) {
    json::array shape(t.shape.begin(), t.shape.end());
    const std::string_view dtype = name(t.dtype);
    root[t.name] = {{"dtype", json::string_view(dtype.data(), dtype.size())},
                    {"shape", std::move(shape)},
                    {"data_offsets", json::array{t.begin, t.end}}};
  }
  std::string text = json::serialize(root);
  text.append(round_up(text.size(), 8) - text.size(), ' ');
  CHECK(text.size() <= safetensors_header_bytes_max, text.size());
  std::string out(8, '\0');
  for (u32 i = 0; i < 8; ++i) out[i] = static_cast<char>(u64{text.size()} >> (8 * i));
  return out + text;
}

Result<std::vector<StoredTensor>> parse_safetensors_header(std::string_view text, u64 buffer_bytes,
                                                           ErrorKind error_kind, std::string_view file_name) {
  json::basic_parser<HeaderHandler> parser{json::parse_options{}};
  json::error_code ec;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), ec);
  HeaderHandler& handler = parser.handler();
  if (!handler.fault.empty())
    return Error{error_kind,
                 fmt::format("{}: header: {} (at byte {} of it)", file_name, handler.fault, used)};
  if (ec) {
    return Error{error_kind,
                 fmt::format("{}: header: not valid JSON at byte {}: {}", file_name, used, ec.message())};
  }
  // The format requires an object at the first byte, and allows only blanks behind it.
  const std::size_t end = text.find_last_not_of(' ') + 1;
  if (text[0] != '{' || text[end - 1] != '}' || used < end) {
    return Error{error_kind,
                 fmt::format("{}: header: must be one JSON object padded with blanks", file_name)};
  }
  std::vector<StoredTensor> tensors = std::move(handler.tensors);
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::string fault = ranges_fault(tensors, buffer_bytes);
  if (!fault.empty()) return Error{error_kind, fmt::format("{}: {}", file_name, fault)};
  return tensors;
}

}  // namespace tidepool
