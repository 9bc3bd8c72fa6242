#include "huggingface/directory/config_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace tidepool {
namespace {

struct Row {
  std::string_view key;
  double there, here;
};

double original_positions(const ModelConfig& c) {
  return c.attention.rope.original_positions != 0 ? c.attention.rope.original_positions : c.positions;
}

// Width inside an expert if it has a key of its own.
double expert_inner(const ModelConfig& c) {
  const ExpertTraits* experts = traits(c.family).experts;
  return experts != nullptr && experts->inner_key && c.experts.count != 0 ? c.expert_inner() : 0;
}

std::vector<Row> sizes(const ModelConfig& there, const ModelConfig& here) {
  const ModelKeyNames& keys = key_names(here.family);
  const auto row = [&](std::string_view key, auto number) {
    return Row{key, double(std::invoke(number, there)), double(std::invoke(number, here))};
  };
  const auto of_softmax = [](auto number) {
    return [number](const ModelConfig& c) { return c.softmax.*number; };
  };
  // Intervals that are longer than the model are all the same.
  const auto of_layers = [](auto number) {
    return [number](const ModelConfig& c) { return std::min(c.softmax.*number, c.layers + 1); };
  };
  return {row("vocab_size", &ModelConfig::vocab_size),
          row(keys.positions, &ModelConfig::positions),
          row(keys.width, &ModelConfig::width),
          row(keys.layers, &ModelConfig::layers),
          row(keys.heads, [](const ModelConfig& c) { return c.attention.heads; }),
          row("num_key_value_heads", [](const ModelConfig& c) { return c.kv_heads(); }),
          row("head_dim", [](const ModelConfig& c) { return c.head_size(); }),
          row("num_global_key_value_heads", [](const ModelConfig& c) { return c.kv_heads(c.layers - 1); }),
          row("global_head_dim", [](const ModelConfig& c) { return c.head_size(c.layers - 1); }),
          row("hidden_size_per_layer_input", [](const ModelConfig& c) { return c.layer_inputs.width; }),
          row("vocab_size_per_layer_input", [](const ModelConfig& c) { return c.layer_inputs_rows(); }),
          row("num_kv_shared_layers", of_softmax(&SoftmaxConfig::shared_layers)),
          row("use_double_wide_mlp", [](const ModelConfig& c) { return c.mlp.double_wide; }),
          row("attention_k_eq_v", of_softmax(&SoftmaxConfig::keys_are_values)),
          row(keys.inner, &ModelConfig::inner),
          row("sliding_window", &ModelConfig::window_of_any_layer),
          row("max_window_layers", of_softmax(&SoftmaxConfig::max_window_layers)),
          row("sliding_window_pattern", of_layers(&SoftmaxConfig::sliding_window_pattern)),
          row("query_pre_attn_scalar", &ModelConfig::attention_scale_size),
          row("rope_local_base_freq", of_softmax(&SoftmaxConfig::local_rope_theta)),
          row("no_rope_layer_interval", of_layers(&SoftmaxConfig::no_rope_interval)),
          row("attention_multiplier", of_softmax(&SoftmaxConfig::score_factor)),
          row("embedding_multiplier", [](const ModelConfig& c) { return c.factors.embedding; }),
          row("residual_multiplier", [](const ModelConfig& c) { return c.factors.residual; }),
          row("logits_scaling", [](const ModelConfig& c) { return c.factors.logits_divisor; }),
          row(keys.norm_epsilon, &ModelConfig::norm_epsilon)};
}

std::vector<Row> angles(const Rope& there, const Rope& here) {
  return {{"rope_theta", there.theta, here.theta},
          {"factor", there.factor, here.factor},
          {"low_freq_factor", there.low_freq_factor, here.low_freq_factor},
          {"high_freq_factor", there.high_freq_factor, here.high_freq_factor},
          {"alpha", there.alpha, here.alpha},
          {"llama_4_scaling_beta", there.query_growth, here.query_growth},
          {"beta_fast", there.beta_fast, here.beta_fast},
          {"beta_slow", there.beta_slow, here.beta_slow},
          {"mscale_all_dim", there.mscale_all_dim, here.mscale_all_dim},
          {"the factor on cosine and sine", there.rotary_factor(), here.rotary_factor()}};
}

std::vector<Row> experts_and_latents(const ModelConfig& a, const ModelConfig& b) {
  const ExpertTraits* experts = traits(b.family).experts;
  return {{"the number of experts", double(a.experts.count), double(b.experts.count)},
          {experts != nullptr ? experts->chosen_key : "num_experts_per_tok", double(a.experts.chosen),
           double(b.experts.chosen)},
          {"moe_intermediate_size", expert_inner(a), expert_inner(b)},
          {"n_shared_experts", double(a.experts.shared), double(b.experts.shared)},
          {"n_group", double(a.experts.groups), double(b.experts.groups)},
          {"topk_group", double(a.experts.chosen_groups), double(b.experts.chosen_groups)},
          {"routed_scaling_factor", a.experts.scale, b.experts.scale},
          {"swiglu_alpha", a.experts.gate_alpha, b.experts.gate_alpha},
          {"swiglu_limit", a.experts.gate_limit, b.experts.gate_limit},
          {"q_lora_rank", double(a.latent.q_lora_rank), double(b.latent.q_lora_rank)},
          {"kv_lora_rank", double(a.latent.kv_lora_rank), double(b.latent.kv_lora_rank)},
          {"qk_nope_head_dim", double(a.latent.qk_nope_head_dim), double(b.latent.qk_nope_head_dim)},
          {"qk_rope_head_dim", double(a.latent.qk_rope_head_dim), double(b.latent.qk_rope_head_dim)},
          {"v_head_dim", double(a.latent.v_head_dim), double(b.latent.v_head_dim)}};
}

std::vector<Row> of_mamba(const ModelConfig& a, const ModelConfig& b) {
  if (traits(b.family).layer_kinds.empty()) return {};
  return {{"the number of Mamba-2's heads", double(a.mamba.heads), double(b.mamba.heads)},
          {"the width of Mamba-2's heads", double(a.mamba.head_dim), double(b.mamba.head_dim)},
          {"the number of Mamba-2's groups", double(a.mamba.groups), double(b.mamba.groups)},
          {"the columns of B and C", double(a.mamba.state_size), double(b.mamba.state_size)},
          {"time_step_min", a.mamba.least_step, b.mamba.least_step},
          {"the width of the shared MLP", double(a.shared_inner()), double(b.shared_inner())}};
}

// RETURNS: a letter for each layer, in families with kinds of layers.
std::string kinds_of(const ModelConfig& c) {
  std::string out;
  for (u32 layer = 0; layer < c.layers && !traits(c.family).layer_kinds.empty(); ++layer)
    out += static_cast<char>(c.layer_kind(layer));
  return out;
}

// RETURNS: the first layer that has experts in only one of them; layers if there is none.
u32 first_other_layer(const ModelConfig& there, const ModelConfig& here) {
  u32 layer = 0;
  while (layer < here.layers && there.has_experts(layer) == here.has_experts(layer)) ++layer;
  return layer;
}

}  // namespace

std::string config_difference(const ModelConfig& there, const ModelConfig& here) {
  if (there.family != here.family)
    return fmt::format("model_type is {} there and {} here", name(there.family), name(here.family));
  std::string out;
  const auto add = [&](std::string_view key, const auto& then, const auto& now) {
    if (then == now) return;
    out += fmt::format("{}{} is {} there and {} here", out.empty() ? "" : ", ", key, then, now);
  };
  const auto add_all = [&](const std::vector<Row>& rows) {
    // Tolerates the error of writing a number in decimal and reading it back.
    for (const Row& row : rows)
      if (std::abs(row.there - row.here) > 1e-12 * std::abs(row.here)) add(row.key, row.there, row.here);
  };
  add_all(sizes(there, here));
  add_all(angles(there.attention.rope, here.attention.rope));
  add_all({{"original_max_position_embeddings", original_positions(there), original_positions(here)}});
  add_all(experts_and_latents(there, here));
  add_all(of_mamba(there, here));
  add("hybrid_override_pattern", kinds_of(there), kinds_of(here));
  add("position_embedding_type", position_embedding_names[static_cast<u32>(there.softmax.positions)],
      position_embedding_names[static_cast<u32>(here.softmax.positions)]);
  if (there.mamba.step_limits != here.mamba.step_limits)
    out += fmt::format("{}time_step_limit has other numbers there", out.empty() ? "" : ", ");
  add("rope_type", rope_type_names[static_cast<u32>(there.attention.rope.type)],
      rope_type_names[static_cast<u32>(here.attention.rope.type)]);
  if (there.attention.rope.short_factor != here.attention.rope.short_factor ||
      there.attention.rope.long_factor != here.attention.rope.long_factor)
    out += fmt::format("{}short_factor or long_factor has other numbers there", out.empty() ? "" : ", ");
  add("truncate", there.attention.rope.truncate, here.attention.rope.truncate);
  add("tie_word_embeddings", there.tied, here.tied);
  add("attention_bias", there.attention.bias, here.attention.bias);
  add("use_qk_norm", there.softmax.qk_norm, here.softmax.qk_norm);
  add("attention_out_bias", there.attention.output_bias, here.attention.output_bias);
  add("mlp_bias", there.mlp.bias, here.mlp.bias);
  add("norm_topk_prob", there.experts.normalise, here.experts.normalise);
  add("rope_interleave", there.latent.interleaved, here.latent.interleaved);
  add("quantization", name(there.quantization.packing), name(here.quantization.packing));
  if (here.quantization.packing == Packing::fp8_block) {
    add("weight_block_size (rows)", there.quantization.block_rows, here.quantization.block_rows);
    add("weight_block_size (columns)", there.quantization.block_columns, here.quantization.block_columns);
  }
  if (const u32 layer = first_other_layer(there, here); there.layers == here.layers && layer < here.layers)
    add(fmt::format("the MLP of layer {}", layer), there.has_experts(layer) ? "experts" : "dense",
        here.has_experts(layer) ? "experts" : "dense");
  return out;
}

}  // namespace tidepool
