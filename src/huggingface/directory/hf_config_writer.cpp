// Writes config.json of a model directory.
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/json/text.h"
#include "config/foreign_keys.h"
#include "config/schema.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/directory/hf_experts.h"
#include "huggingface/directory/hf_mixers.h"
#include "huggingface/directory/hf_rope.h"
#include "huggingface/directory/hf_score.h"
#include "huggingface/directory/hf_window.h"

namespace tidepool {
namespace json = boost::json;
namespace {

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
    {"num_kv_shared_layers", [](const ModelConfig& c) -> json::value { return c.softmax.shared_layers; }},
    {"use_double_wide_mlp", [](const ModelConfig& c) -> json::value { return c.mlp.double_wide; }},
    {"hidden_size_per_layer_input", [](const ModelConfig& c) -> json::value { return c.layer_inputs.width; }},
    {"vocab_size_per_layer_input", [](const ModelConfig& c) -> json::value { return c.layer_inputs_rows(); }},
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

}  // namespace tidepool
