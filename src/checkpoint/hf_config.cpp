#include "checkpoint/hf_config.h"

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "json/text.h"
#include "tidepool/check.h"

namespace tidepool {
namespace json = boost::json;
namespace {

class Reader {
 public:
  Reader(const json::object& object, ErrorKind kind, std::string_view file_name)
      : object_(object), kind_(kind), file_name_(file_name) {}

  // null counts as absent, as in transformers.
  const json::value* find(const char* key) const {
    const json::value* v = object_.if_contains(key);
    return v == nullptr || v->is_null() ? nullptr : v;
  }

  Result<void> size(const char* key, u32& out, bool required) const {
    const json::value* v = find(key);
    if (v == nullptr && !required) return {};
    if (v == nullptr || !v->is_int64() || v->get_int64() <= 0 || v->get_int64() > i64{none} - 1) {
      return fault(key, "must be a positive whole number");
    }
    out = static_cast<u32>(v->get_int64());
    return {};
  }
  Result<void> number(const char* key, double& out) const {
    const json::value* v = find(key);
    if (v == nullptr) return {};
    if (!v->is_number()) return fault(key, "must be a number");
    out = v->to_number<double>();
    return {};
  }
  Result<void> must_be(const char* key, const json::value& wanted) const {
    const json::value* v = find(key);
    if (v == nullptr || *v == wanted) return {};
    return fault(key, fmt::format("is {}, Tidepool computes {}", json_text(*v, JsonStyle::line),
                                  json_text(wanted, JsonStyle::line)));
  }

 private:
  Error fault(const char* key, const std::string& why) const {
    return {kind_, fmt::format("{}: {} {}", file_name_, key, why)};
  }

  const json::object& object_;
  ErrorKind kind_;
  std::string_view file_name_;
};

}  // namespace

std::string hf_config_text(const Gpt2Config& c, Precision precision) {
  constexpr std::array<const char*, precision_count> dtypes = {"float32", "bfloat16", "float16"};
  json::object o;
  o["architectures"] = json::array{"GPT2LMHeadModel"};
  o["model_type"] = "gpt2";
  o["torch_dtype"] = dtypes[static_cast<u32>(precision)];
  o["vocab_size"] = c.vocab_size;
  o["n_positions"] = c.n_positions;
  o["n_ctx"] = c.n_positions;
  o["n_embd"] = c.n_embd;
  o["n_layer"] = c.n_layer;
  o["n_head"] = c.n_head;
  o["n_inner"] = c.n_inner == 0 ? json::value(nullptr) : json::value(c.n_inner);
  o["activation_function"] = "gelu_new";
  o["layer_norm_epsilon"] = c.layer_norm_epsilon;
  o["initializer_range"] = c.initializer_range;
  o["embd_pdrop"] = c.embd_pdrop;
  o["attn_pdrop"] = c.attn_pdrop;
  o["resid_pdrop"] = c.resid_pdrop;
  o["tie_word_embeddings"] = true;
  // GPT-2's own ids (50256) lie outside a small vocabulary: there is no such token then.
  const bool has_end_of_text = c.vocab_size > 50256;
  o["bos_token_id"] = has_end_of_text ? json::value(50256) : json::value(nullptr);
  o["eos_token_id"] = has_end_of_text ? json::value(50256) : json::value(nullptr);
  return json_text(o, JsonStyle::pretty);
}

Result<Gpt2Config> parse_hf_config(std::string_view text, ErrorKind error_kind, std::string_view file_name) {
  TRY_ASSIGN(const json::value root, parse_json(text, error_kind, file_name));
  if (!root.is_object()) return Error{error_kind, fmt::format("{}: is not a JSON object", file_name)};
  const Reader r(root.get_object(), error_kind, file_name);
  TRY(r.must_be("model_type", "gpt2"));
  TRY(r.must_be("activation_function", "gelu_new"));
  TRY(r.must_be("tie_word_embeddings", true));
  TRY(r.must_be("scale_attn_weights", true));
  TRY(r.must_be("scale_attn_by_inverse_layer_idx", false));
  TRY(r.must_be("add_cross_attention", false));
  Gpt2Config c;
  TRY(r.size("vocab_size", c.vocab_size, true));
  TRY(r.size("n_positions", c.n_positions, true));
  TRY(r.size("n_embd", c.n_embd, true));
  TRY(r.size("n_layer", c.n_layer, true));
  TRY(r.size("n_head", c.n_head, true));
  TRY(r.size("n_inner", c.n_inner, false));
  TRY(r.number("layer_norm_epsilon", c.layer_norm_epsilon));
  TRY(r.number("initializer_range", c.initializer_range));
  // Hugging Face's defaults, where a file leaves them out.
  c.embd_pdrop = c.attn_pdrop = c.resid_pdrop = 0.1;
  TRY(r.number("embd_pdrop", c.embd_pdrop));
  TRY(r.number("attn_pdrop", c.attn_pdrop));
  TRY(r.number("resid_pdrop", c.resid_pdrop));
  return c;
}

}  // namespace tidepool
