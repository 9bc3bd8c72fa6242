#include "huggingface/directory/quantization.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/json/text.h"
#include "huggingface/directory/hf_wrapper.h"

namespace tidepool {
namespace json = boost::json;
namespace {

constexpr std::string_view to_unpack =
    "name the directory of the model before quantization, or unpack this one to bf16 with its own tools";

// Reads keys of one quantization_config. Types are checked as transformers checks them.
class QuantizationReader {
 public:
  QuantizationReader(const json::object& object, ErrorKind kind, std::string_view file_name)
      : object_(object), kind_(kind), file_name_(file_name) {}

  Result<Quantization> read() {
    TRY_ASSIGN(const std::string method, text("quant_method", ""));
    if (method == "fp8") return read_fp8();
    if (method == "mxfp4") return read_mxfp4();
    if (method == "bitsandbytes") return read_bitsandbytes();
    // Files of 2023 have only the two flags.
    if (method.empty() && (find("load_in_4bit") != nullptr || find("load_in_8bit") != nullptr))
      return read_bitsandbytes();
    if (method.empty())
      return fault("quant_method",
                   fmt::format("is missing, so the weights' format is unknown: {}", to_unpack));
    return fault("quant_method",
                 fmt::format("'{}' is not supported, only fp8 with blocks, mxfp4 and bitsandbytes "
                             "(nf4, int8) are: {}",
                             method, to_unpack));
  }

 private:
  Result<Quantization> read_fp8() {
    Quantization out{.packing = Packing::fp8_block};
    TRY(only("fmt", "e4m3", {"e4m3", "float8_e4m3fn"}));
    TRY(only("activation_scheme", "dynamic", {"dynamic"}));
    // ue8m0 says that scales are powers of two; their type in the file decides how they are read.
    TRY(only("scale_fmt", "float", {"float", "ue8m0"}));
    TRY(only("expert_dtype", "fp8", {"fp8"}));
    const json::value* sizes = find("weight_block_size");
    if (sizes == nullptr)
      return fault(
          "weight_block_size",
          fmt::format("is missing: FP8 with one scale per tensor or row is not supported, only blocks such "
                      "as [128, 128]; {}",
                      to_unpack));
    TRY(read_block_sizes(*sizes, out));
    TRY_ASSIGN(out.unpacked_modules, names("modules_to_not_convert"));
    if (out.unpacked_modules.empty()) {
      TRY_ASSIGN(out.unpacked_modules, names("ignored_layers"));  // MiniMax's name for it
    }
    return out;
  }

  Result<void> read_block_sizes(const json::value& sizes, Quantization& out) const {
    constexpr i64 most = 1 << 16;
    const bool two = sizes.is_array() && sizes.get_array().size() == 2;
    u32 block[2] = {};
    for (u32 i = 0; two && i < 2; ++i) {
      const json::value& size = sizes.get_array()[i];
      if (size.is_int64() && size.get_int64() > 0 && size.get_int64() <= most)
        block[i] = static_cast<u32>(size.get_int64());
    }
    if (block[0] == 0 || block[1] == 0)
      return fault("weight_block_size",
                   fmt::format("{} must be two integers from 1 to {}, such as [128, 128]",
                               json_text(sizes, JsonStyle::line), most));
    out.block_rows = block[0], out.block_columns = block[1];
    return {};
  }

  Result<Quantization> read_mxfp4() {
    Quantization out{.packing = Packing::mxfp4};
    TRY_ASSIGN(out.unpacked_modules, names("modules_to_not_convert"));
    return out;
  }

  Result<Quantization> read_bitsandbytes() {
    TRY_ASSIGN(const bool four, flag("load_in_4bit"));
    TRY_ASSIGN(const bool eight, flag("load_in_8bit"));
    if (four && eight) return fault("load_in_8bit", "is true, and so is load_in_4bit: only one can be");
    if (!four && !eight)
      return fault("load_in_4bit",
                   fmt::format("and load_in_8bit are false or missing, so nothing says how the "
                               "weights are packed: {}",
                               to_unpack));
    Quantization out;
    TRY_ASSIGN(out.unpacked_modules, names("llm_int8_skip_modules"));
    if (eight) {
      out.packing = Packing::int8_row;
      TRY_ASSIGN(const bool sixteen, flag("llm_int8_has_fp16_weight"));
      if (sixteen)
        return fault(
            "llm_int8_has_fp16_weight",
            fmt::format("is true, so the weights are quantized only while they compute: {}", to_unpack));
      return out;
    }
    TRY(only("bnb_4bit_quant_type", "fp4", {"nf4"}));
    TRY(only("bnb_4bit_quant_storage", "uint8", {"uint8"}));
    TRY_ASSIGN(const bool nested, flag("bnb_4bit_use_double_quant"));
    out.packing = nested ? Packing::nf4_double : Packing::nf4;
    return out;
  }

  // RETURNS: null if the key is missing or null.
  const json::value* find(std::string_view key) const {
    const json::value* value = object_.if_contains(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  Result<std::string> text(std::string_view key, std::string_view left_out) const {
    const json::value* value = find(key);
    if (value == nullptr) return std::string(left_out);
    if (!value->is_string())
      return fault(key, fmt::format("{} must be a text", json_text(*value, JsonStyle::line)));
    return std::string(value->get_string());
  }

  Result<bool> flag(std::string_view key) const {
    const json::value* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_bool())
      return fault(key, fmt::format("{} must be true or false", json_text(*value, JsonStyle::line)));
    return value->get_bool();
  }

  Result<std::vector<std::string>> names(std::string_view key) const {
    std::vector<std::string> out;
    const json::value* value = find(key);
    if (value == nullptr) return out;
    if (!value->is_array()) return fault(key, "must be a list of names of modules");
    for (const json::value& name : value->get_array()) {
      if (!name.is_string()) return fault(key, "must be a list of names of modules");
      out.emplace_back(name.get_string());
    }
    return out;
  }

  // Refuses a value of `key` that is not in `supported`. `left_out`: the value if the key is missing.
  Result<void> only(std::string_view key, std::string_view left_out,
                    std::initializer_list<std::string_view> supported) const {
    TRY_ASSIGN(const std::string value, text(key, left_out));
    for (const std::string_view one : supported)
      if (value == one) return {};
    return fault(key, fmt::format("'{}'{} is not supported, only {} is: {}", value,
                                  find(key) == nullptr ? ", which counts if the key is missing," : "",
                                  *supported.begin(), to_unpack));
  }

  Error fault(std::string_view key, std::string_view why) const {
    return {kind_, fmt::format("{}: quantization_config.{}: {}", file_name_, key, why)};
  }

  const json::object& object_;
  ErrorKind kind_;
  std::string_view file_name_;
};

}  // namespace

Result<std::optional<Quantization>> parse_quantization(std::string_view config, ErrorKind error_kind,
                                                       std::string_view file_name) {
  TRY_ASSIGN(json::value root, parse_json(config, error_kind, file_name));
  if (!root.is_object()) return Error{error_kind, fmt::format("{}: must be an object", file_name)};
  TRY_ASSIGN(const json::object keys, text_config_of(std::move(root.get_object()), error_kind, file_name));
  const json::value* value = keys.if_contains(quantization_key);
  if (value == nullptr || value->is_null()) return std::optional<Quantization>();
  if (!value->is_object())
    return Error{error_kind,
                 fmt::format("{}: quantization_config: must be an object with a quant_method", file_name)};
  TRY_ASSIGN(Quantization out, QuantizationReader(value->get_object(), error_kind, file_name).read());
  return std::optional<Quantization>(std::move(out));
}

}  // namespace tidepool
