#include "huggingface/weights/quant_state.h"

#include <fmt/format.h>

#include <bit>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <optional>

#include "base/json/text.h"

namespace tidepool {
namespace json = boost::json;
namespace {

// bitsandbytes' own limits.
constexpr i64 block_min = 32, block_max = 4096;

class QuantStateReader {
 public:
  QuantStateReader(const json::object& object, std::string_view where) : object_(object), where_(where) {}

  Result<QuantState> read() const {
    QuantState out;
    TRY(one_of("quant_type", {"nf4"}));
    // Values are rounded to bf16 whatever the dtype (tidepool/packing.h).
    TRY(one_of("dtype", {"bfloat16", "float16", "float32"}));
    TRY_ASSIGN(out.block, block("blocksize"));
    TRY_ASSIGN(out.shape, shape());
    out.nested = find("nested_blocksize") != nullptr || find("nested_offset") != nullptr;
    if (!out.nested) return out;
    TRY(one_of("nested_dtype", {"float32"}));
    TRY_ASSIGN(out.nested_block, block("nested_blocksize"));
    const json::value* offset = find("nested_offset");
    const double number = offset != nullptr && offset->is_number() ? offset->to_number<double>() : NAN;
    out.nested_offset = static_cast<float>(number);
    if (!std::isfinite(out.nested_offset)) return fault("nested_offset", "must be a finite number");
    return out;
  }

 private:
  // RETURNS: null if the key is missing or null.
  const json::value* find(std::string_view key) const {
    const json::value* value = object_.if_contains(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  Result<void> one_of(std::string_view key, std::initializer_list<std::string_view> supported) const {
    const json::value* value = find(key);
    if (value == nullptr) return fault(key, "is missing");
    for (const std::string_view one : supported)
      if (value->is_string() && std::string_view(value->get_string()) == one) return {};
    return fault(key, fmt::format("{} is not supported, only {} is", json_text(*value, JsonStyle::line),
                                  fmt::join(supported, ", ")));
  }

  Result<u32> block(std::string_view key) const {
    const json::value* value = find(key);
    const i64 size = value != nullptr && value->is_int64() ? value->get_int64() : 0;
    if (size < block_min || size > block_max || !std::has_single_bit(static_cast<u64>(size)))
      return fault(key, fmt::format("must be a power of two from {} to {}", block_min, block_max));
    return static_cast<u32>(size);
  }

  Result<std::vector<u64>> shape() const {
    const json::value* value = find("shape");
    if (value == nullptr || !value->is_array()) return fault("shape", "must be a list of two integers");
    std::vector<u64> out;
    for (const json::value& size : value->get_array()) {
      if (!size.is_int64() || size.get_int64() < 0) return fault("shape", "must be a list of two integers");
      out.push_back(static_cast<u64>(size.get_int64()));
    }
    return out;
  }

  Error fault(std::string_view key, std::string_view why) const {
    return bad_input(fmt::format("{}: {}: {}", where_, key, why));
  }

  const json::object& object_;
  std::string_view where_;
};

}  // namespace

Result<QuantState> parse_quant_state(std::string_view text, std::string_view where) {
  TRY_ASSIGN(const json::value root, parse_json(text, ErrorKind::bad_input, where));
  if (!root.is_object()) return bad_input(fmt::format("{}: must be an object", where));
  return QuantStateReader(root.get_object(), where).read();
}

}  // namespace tidepool
