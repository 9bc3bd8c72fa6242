// config.json of a model directory: a reader that checks types as transformers does, and a writer.
#include "huggingface/directory/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <filesystem>

#include "base/json/text.h"
#include "base/overloaded.h"
#include "base/read_file.h"
#include "base/text/checkpoint_name.h"
#include "base/text/path_text.h"
#include "config/foreign_keys.h"
#include "config/schema.h"
#include "huggingface/directory/hf_experts.h"
#include "huggingface/directory/hf_layer_sizes.h"
#include "huggingface/directory/hf_mixers.h"
#include "huggingface/directory/hf_rope.h"
#include "huggingface/directory/hf_score.h"
#include "huggingface/directory/hf_window.h"
#include "huggingface/directory/hf_wrapper.h"
#include "huggingface/directory/quantization.h"
#include "huggingface/weights/expert_files.h"
#include "huggingface/weights/packed_sources.h"

namespace tidepool {
namespace json = boost::json;
namespace {

// The defaults that transformers uses for keys that a file leaves out.
ModelConfig hf_default(Family family) {
  const LeftOut& left_out = traits(family).left_out;
  ModelConfig c = default_model(family);
  c.attention.dropout = left_out.dropout;
  if (style(family).residual_dropout) c.residual_dropout = left_out.dropout;
  if (style(family).positions == PositionKind::learned) c.embedding_dropout = left_out.dropout;
  if (left_out.positions != 0) c.positions = left_out.positions;
  if (left_out.norm_epsilon != 0) c.norm_epsilon = left_out.norm_epsilon;
  c.attention.kv_heads_given = left_out.kv_heads;
  c.softmax.head_size_given = left_out.head_size;
  c.softmax.scale_given = left_out.attention_scale_size;
  c.softmax.global_head_size = left_out.global_head_size;
  c.softmax.qk_norm = !traits(family).qk_norm_key;
  if (traits(family).experts != nullptr)
    c.experts.normalise =
        !traits(family).experts->normalise_key || traits(family).experts->normalise_left_out;
  return c;
}

// Value as the schema reads it: text without quotes.
std::string text_of(const json::value& value) {
  return value.is_string() ? std::string(value.get_string()) : json_text(value, JsonStyle::line);
}

std::string_view kind_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
      return "an integer";
    case json::kind::double_:
      return "a float";
    case json::kind::string:
      return "a text";
    case json::kind::array:
      return "a list";
    case json::kind::object:
      break;
  }
  return "an object";
}

// The kind of value that a field takes, in the words of kind_of().
std::string_view wanted_kind(const Field& field) {
  return std::visit(
      Overloaded{[](u32* (*)(Config&)) { return "an integer"; },
                 [](u64* (*)(Config&)) { return "an integer"; },
                 [](double* (*)(Config&)) { return "a number"; },
                 [](bool* (*)(Config&)) { return "a boolean"; }, [](const auto&) { return "a text"; }},
      field.ref);
}

// Checks types as transformers does: a number in quotes is no number, and a float is accepted as an integer
// only among rope parameters. "false" in quotes would even count as true there.
bool has_kind(const json::value& value, std::string_view wanted, std::string_view key) {
  if (wanted == "a number" || (wanted == "an integer" && is_rope_key(key.substr(0, key.find('.')))))
    return value.is_number();
  return kind_of(value) == wanted;
}

constexpr std::array<const char*, 2> beside_rope = {"rope_theta", "partial_rotary_factor"};

class Reader {
 public:
  Reader(Family family, ErrorKind kind, std::string_view file_name)
      : family_(family), kind_(kind), file_name_(file_name) {
    config_.model = hf_default(family);
  }

  Result<ModelConfig> read(json::object object) {
    if (const auto wrong = merge_rope_maps(family_, object)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = rename_rotary_width(family_, object)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = rename_expert_count(family_, object)) return fault(wrong->key, wrong->reason);
    // Values within the map of rope parameters override the keys beside it.
    for (const char* key : beside_rope)
      if (const json::value* value = object.if_contains(key)) TRY(read_key(key, *value));
    const bool has_positions = object.contains("n_positions");  // GPT-2's; n_ctx is its older name
    // As in transformers, one of the two maps counts as a whole, and they are never mixed: rope_scaling,
    // unless it is empty.
    const json::value* scaling = object.if_contains("rope_scaling");
    const bool has_scaling = scaling != nullptr && scaling->is_object() && !scaling->get_object().empty();
    for (const auto& [key, value] : object) {
      const bool read_otherwise = std::ranges::find(beside_rope, key) != beside_rope.end() ||
                                  (key == "n_ctx" && has_positions) ||
                                  (key == "rope_parameters" && has_scaling) || key == quantization_key ||
                                  is_window_key(family_, key) || is_mixer_key(family_, key) ||
                                  is_mlp_list(family_, key) || is_layer_size_key(family_, key);
      if (!read_otherwise) TRY(read_key(std::string(key), value));
    }
    TRY(check_required(object));
    if (const auto wrong = take_lengths(object, config_.model)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = read_window(object, config_.model)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = read_layer_sizes(object, config_.model)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = read_mixers(object, config_.model)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = read_mlp_list(object, config_.model)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = read_unrotated(object, config_.model)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = read_score(object, config_.model.score)) return fault(wrong->key, wrong->reason);
    if (const auto wrong = check_model(config_.model)) return fault(wrong->key, wrong->reason);
    return config_.model;
  }

 private:
  Error fault(std::string_view key, std::string_view why) const {
    return {kind_, fmt::format("{}: {}: {}", file_name_, key, why)};
  }

  Result<void> check_required(const json::object& object) const {
    const auto is_missing = [&](std::string_view key) { return !key.empty() && !object.contains(key); };
    constexpr std::string_view missing =
        "is missing: fetch the file again from where the model came from, or add the value that the model "
        "was "
        "trained with";
    for (const std::string_view key : style(family_).required_keys)
      if (is_missing(key)) return fault(key, missing);
    if (const ExpertTraits* experts = traits(family_).experts)
      for (const std::string_view key : experts->required_keys)
        if (is_missing(key)) return fault(key, missing);
    const auto has_map = [&](const char* key) { return object.contains(key) && object.at(key).is_object(); };
    if (traits(family_).rope_required && !has_map("rope_parameters") && !has_map("rope_scaling"))
      return fault("rope_parameters",
                   "is missing, which says how angles are scaled: fetch the file again from where the "
                   "model came from");
    return {};
  }

  Result<void> read_key(const std::string& given, const json::value& value) {
    const std::string key = canonical_model_key(given);
    if (is_rope_key(key) && value.is_object()) {
      if (const auto wrong = check_one_type(key, value.get_object())) return fault(wrong->key, wrong->reason);
      // First, so that a type that is not computed is named, and not one of its parameters.
      for (const char* type : {"rope_type", "type"})
        if (const json::value* given_type = value.get_object().if_contains(type))
          TRY(read_key(fmt::format("{}.{}", key, type), *given_type));
      for (const auto& [inner, inner_value] : value.get_object())
        TRY(read_key(fmt::format("{}.{}", key, std::string_view(inner)), inner_value));
      const auto wrong = check_scaling(key, value.get_object(), config_.model.attention.rope.type);
      return wrong ? Result<void>(fault(wrong->key, wrong->reason)) : Result<void>();
    }
    if (is_rope_key(key) && !value.is_null())
      return fault(key, "must be an object with the keys of the angles, such as rope_type and rope_theta");
    const std::vector<const Field*> found = find_fields("model", key);
    const bool ours = found.size() == 1 && key != "directory" && applies(*found[0], family_);
    if (!ours) return refuse_foreign(key, value);
    Result<void> taken = set(key, *found[0], value);
    if (!taken && key.ends_with("rope_type"))
      return Error{taken.error().kind,
                   taken.error().message +
                       "; a model with other positions cannot be trained here: use a model "
                       "with one of these, such as the model that was extended"};
    return taken;
  }

  Result<void> set(std::string_view key, const Field& field, const json::value& value) {
    if (value.is_null() && !field.automatic) return {};  // same as a missing key
    if (const auto* layers = std::get_if<std::vector<u32>* (*)(Config&)>(&field.ref)) {
      const auto wrong = read_layer_list(field.key, value, *(*layers)(config_));
      return wrong ? Result<void>(fault(wrong->key, wrong->reason)) : Result<void>();
    }
    if (const auto* numbers = std::get_if<std::vector<double>* (*)(Config&)>(&field.ref))
      return set_numbers(key, value, *(*numbers)(config_));
    if (value.is_object() || value.is_array())
      return fault(key, fmt::format("must be one value ({})", type_name(field)));
    if (const std::string_view wanted = wanted_kind(field); !value.is_null() && !has_kind(value, wanted, key))
      return fault(key, fmt::format("{} is {}; it must be {}", json_text(value, JsonStyle::line),
                                    kind_of(value), wanted));
    const std::string text = value.is_null() ? "auto" : text_of(value);
    if (const Result<void> done = set_value(field, config_, text); !done)
      return fault(key, fmt::format("'{}' {}", text, done.error().message));
    return {};
  }

  Result<void> set_numbers(std::string_view key, const json::value& value, std::vector<double>& to) const {
    const auto is_number = [](const json::value& item) { return item.is_number(); };
    if (!value.is_array() || !std::ranges::all_of(value.get_array(), is_number))
      return fault(key, fmt::format("must be a list of numbers, and is {}", kind_of(value)));
    to.clear();
    for (const json::value& item : value.get_array()) to.push_back(item.to_number<double>());
    return {};
  }

  // Ignores unknown keys: files of later versions have them.
  Result<void> refuse_foreign(const std::string& key, const json::value& value) {
    if (value.is_null()) return {};
    if (!value.is_array()) return accept_value(key, value);
    for (const json::value& item : value.get_array()) TRY(accept_value(key, item));
    return {};
  }
  Result<void> accept_value(std::string_view key, const json::value& value) {
    const std::string text = text_of(value);
    TRY(accept(key, text));
    const bool quoted = value.is_string() && (text == "true" || text == "false" || text == "null");
    if (quoted && is_demanded(family_, key))
      return fault(key, fmt::format("\"{0}\" is a text; it must be {0}, without quotes", text));
    return {};
  }
  Result<void> accept(std::string_view key, const std::string& value) {
    const Result<bool> accepted = accept_model_key(family_, key, value);
    if (!accepted) return fault(key, accepted.error().message);
    if (!*accepted && key.starts_with("rope_parameters."))
      return fault(key, "is of a rope type that Tidepool does not compute");
    return {};
  }

  Config config_;
  Family family_;
  ErrorKind kind_;
  std::string_view file_name_;
};

constexpr std::array<const char*, precision_count> dtypes = {"float32", "bfloat16", "float16"};

json::value cap_value(double cap) { return cap == 0 ? json::value(nullptr) : json::value(cap); }

// A key of config.json. The keys are written in this order; each family has some of them.
struct WrittenKey {
  std::string_view key;
  json::value (*value)(const ModelConfig&);
  bool always = false;  // written even if the family allows only one value
};
constexpr WrittenKey written_keys[] = {
    {"vocab_size", [](const ModelConfig& c) -> json::value { return c.vocab_size; }},
    {"n_positions", [](const ModelConfig& c) -> json::value { return c.positions; }},
    {"n_ctx", [](const ModelConfig& c) -> json::value { return c.positions; }},
    {"max_position_embeddings", [](const ModelConfig& c) -> json::value { return c.positions; }},
    {"n_embd", [](const ModelConfig& c) -> json::value { return c.width; }},
    {"hidden_size", [](const ModelConfig& c) -> json::value { return c.width; }},
    {"intermediate_size", [](const ModelConfig& c) -> json::value { return c.inner(); }},
    {"n_layer", [](const ModelConfig& c) -> json::value { return c.layers; }},
    {"num_hidden_layers", [](const ModelConfig& c) -> json::value { return c.layers; }},
    {"n_head", [](const ModelConfig& c) -> json::value { return c.attention.heads; }},
    {"num_attention_heads", [](const ModelConfig& c) -> json::value { return c.attention.heads; }},
    {"n_inner",
     [](const ModelConfig& c) {
       return c.mlp.inner_given == 0 ? json::value(nullptr) : json::value(c.mlp.inner_given);
     }},
    {"num_key_value_heads", [](const ModelConfig& c) -> json::value { return c.kv_heads(); }},
    {"head_dim", [](const ModelConfig& c) -> json::value { return c.head_size(); }},
    {"global_head_dim", [](const ModelConfig& c) -> json::value { return c.head_size(c.layers - 1); }},
    {"attention_k_eq_v", [](const ModelConfig& c) -> json::value { return c.softmax.keys_are_values; }},
    {"num_global_key_value_heads",
     [](const ModelConfig& c) -> json::value { return c.kv_heads(c.layers - 1); }},
    {"hidden_size_per_layer_input", [](const ModelConfig&) -> json::value { return 0; }, true},
    {"activation_function", [](const ModelConfig&) -> json::value { return "gelu_new"; }, true},
    {"hidden_act",
     [](const ModelConfig& c) -> json::value {
       return style(c.family).mlp == MlpKind::squared_relu ? "relu2" : "silu";
     },
     true},
    {"hidden_activation", [](const ModelConfig&) -> json::value { return "gelu_pytorch_tanh"; }, true},
    {"layer_norm_epsilon", [](const ModelConfig& c) -> json::value { return c.norm_epsilon; }},
    {"rms_norm_eps", [](const ModelConfig& c) -> json::value { return c.norm_epsilon; }},
    {"query_pre_attn_scalar", [](const ModelConfig& c) -> json::value { return c.attention_scale_size(); }},
    {"attn_logit_softcapping", [](const ModelConfig& c) { return cap_value(c.softmax.soft_cap); }},
    {"final_logit_softcapping", [](const ModelConfig& c) { return cap_value(c.final_soft_cap); }},
    {"rope_local_base_freq", [](const ModelConfig& c) -> json::value { return c.softmax.local_rope_theta; }},
    {"initializer_range", [](const ModelConfig& c) -> json::value { return c.initializer_range; }},
    {"embd_pdrop", [](const ModelConfig& c) -> json::value { return c.embedding_dropout; }},
    {"attn_pdrop", [](const ModelConfig& c) -> json::value { return c.attention.dropout; }},
    {"resid_pdrop", [](const ModelConfig& c) -> json::value { return c.residual_dropout; }},
    {"residual_dropout", [](const ModelConfig& c) -> json::value { return c.residual_dropout; }},
    {"attention_out_bias", [](const ModelConfig& c) -> json::value { return c.attention.output_bias; }},
    {"attention_multiplier", [](const ModelConfig& c) -> json::value { return c.attention_scale(); }},
    {"embedding_multiplier", [](const ModelConfig& c) -> json::value { return c.factors.embedding; }},
    {"residual_multiplier", [](const ModelConfig& c) -> json::value { return c.factors.residual; }},
    {"logits_scaling", [](const ModelConfig& c) -> json::value { return c.factors.logits_divisor; }},
    {"attention_dropout", [](const ModelConfig& c) -> json::value { return c.attention.dropout; }},
    {"tie_word_embeddings", [](const ModelConfig& c) -> json::value { return c.tied; }, true},
    {"use_qk_norm", [](const ModelConfig& c) -> json::value { return c.softmax.qk_norm; }, true},
    {"attention_bias", [](const ModelConfig& c) -> json::value { return c.attention.bias; }},
    {"mlp_bias", [](const ModelConfig& c) -> json::value { return c.mlp.bias; }},
    {"full_attention_interval",
     [](const ModelConfig& c) -> json::value { return c.delta.attention_interval; }},
    {"linear_conv_kernel_dim", [](const ModelConfig& c) -> json::value { return c.delta.taps; }},
    {"linear_key_head_dim", [](const ModelConfig& c) -> json::value { return c.delta.key_head_dim; }},
    {"linear_value_head_dim", [](const ModelConfig& c) -> json::value { return c.delta.value_head_dim; }},
    {"linear_num_key_heads", [](const ModelConfig& c) -> json::value { return c.delta.key_heads; }},
    {"linear_num_value_heads", [](const ModelConfig& c) -> json::value { return c.delta.value_heads; }},
    {"mamba_num_heads", [](const ModelConfig& c) -> json::value { return c.mamba.heads; }},
    {"mamba_head_dim", [](const ModelConfig& c) -> json::value { return c.mamba.head_dim; }},
    {"ssm_state_size", [](const ModelConfig& c) -> json::value { return c.mamba.state_size; }},
    {"n_groups", [](const ModelConfig& c) -> json::value { return c.mamba.groups; }},
    {"conv_kernel", [](const ModelConfig& c) -> json::value { return c.mamba.taps; }},
    {"use_conv_bias", [](const ModelConfig& c) -> json::value { return c.mamba.convolution_bias; }},
    {"use_bias", [](const ModelConfig& c) -> json::value { return c.mamba.bias; }},
    {"time_step_min", [](const ModelConfig& c) -> json::value { return c.mamba.least_step; }},
    {"mamba_n_heads", [](const ModelConfig& c) -> json::value { return c.mamba.heads; }},
    {"mamba_d_head", [](const ModelConfig& c) -> json::value { return c.mamba.head_dim; }},
    {"mamba_d_state", [](const ModelConfig& c) -> json::value { return c.mamba.state_size; }},
    {"mamba_n_groups", [](const ModelConfig& c) -> json::value { return c.mamba.groups; }},
    {"mamba_d_conv", [](const ModelConfig& c) -> json::value { return c.mamba.taps; }},
    {"mamba_conv_bias", [](const ModelConfig& c) -> json::value { return c.mamba.convolution_bias; }},
    {"mamba_proj_bias", [](const ModelConfig& c) -> json::value { return c.mamba.bias; }},
    {"position_embedding_type",
     [](const ModelConfig& c) -> json::
                                  value {
                                    return json::string_view(
                                        position_embedding_names[static_cast<u32>(c.softmax.positions)]);
                                  }},
    {"moe_shared_expert_intermediate_size",
     [](const ModelConfig& c) -> json::value { return c.experts.shared_width; }},
    {"shared_intermediate_size", [](const ModelConfig& c) -> json::value { return c.experts.shared_width; }},
    {"mlp_hidden_act", [](const ModelConfig&) -> json::value { return "relu2"; }, true},
    {"partial_rotary_factor",
     [](const ModelConfig& c) -> json::value { return c.attention.rope.partial_factor; }},
};

bool has_key(Family family, const WrittenKey& w) {
  for (const Field* field : find_fields("model", w.key))
    if (applies(*field, family)) return true;
  return w.always && is_demanded(family, w.key);
}

json::object object_of(const ModelConfig& c, Precision precision) {
  const char* dtype = hf_dtype(precision);
  json::object o;
  o["architectures"] = json::array{json::string_view(traits(c.family).architecture)};
  o["model_type"] = json::string_view(name(c.family));
  o["dtype"] = dtype;
  o["torch_dtype"] = dtype;
  for (const WrittenKey& w : written_keys)
    if (has_key(c.family, w)) o[w.key] = w.value(c);
  write_experts(c, o);
  write_window(c, o);
  write_mixers(c, o);
  write_rope(c, o);
  // The family's id may lie outside a small vocabulary: then there is no such token.
  const u32 end_of_text = traits(c.family).end_of_text;
  for (const char* key : {"bos_token_id", "eos_token_id"})
    o[key] = end_of_text != 0 && c.vocab_size > end_of_text ? json::value(end_of_text) : json::value(nullptr);
  if (c.score.on()) write_score(c, o);
  return o;
}

}  // namespace

const char* hf_dtype(Precision precision) { return dtypes[static_cast<u32>(precision)]; }

std::string hf_config_text(const ModelConfig& c, Precision precision) {
  return json_text(object_of(c, precision), JsonStyle::pretty);
}

Result<ModelConfig> parse_hf_config(std::string_view text, ErrorKind error_kind, std::string_view file_name) {
  TRY_ASSIGN(json::value root, parse_json(text, error_kind, file_name));
  if (!root.is_object()) return Error{error_kind, fmt::format("{}: is not a JSON object", file_name)};
  TRY_ASSIGN(const json::object keys, text_config_of(std::move(root.get_object()), error_kind, file_name));
  const json::value* type = keys.if_contains("model_type");
  if (type == nullptr || !type->is_string())
    return Error{error_kind, fmt::format("{}: model_type: must name the family of the model", file_name)};
  const Result<Family> family = parse_family(std::string_view(type->get_string()));
  if (!family) return Error{error_kind, fmt::format("{}: model_type: {}", file_name, family.error().message)};
  TRY_ASSIGN(ModelConfig config, Reader(*family, error_kind, file_name).read(keys));
  TRY_ASSIGN(const std::optional<Quantization> quantization, parse_quantization(text, error_kind, file_name));
  if (quantization) config.quantization = *quantization;
  return config;
}

}  // namespace tidepool
