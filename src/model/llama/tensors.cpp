#include "model/llama/tensors.h"

#include "base/check.h"

namespace tidepool::llama {

using enum LayerTensor;

std::string_view name(const ModelConfig& c, LayerTensor tensor) {
  // Llama calls the MLP's norm post_attention_layernorm. With branch norms, the norm of attention's branch
  // has that name.
  if (tensor == mlp_norm && style(c.family).branch_norms) return "pre_feedforward_layernorm.weight";
  if (tensor == router) return traits(c.family).experts->tensors.router;
  if (tensor == router_bias) return traits(c.family).experts->tensors.router_bias;
  constexpr std::array<std::string_view, tensor_count> names = {"input_layernorm.weight",
                                                                "self_attn.q_proj.weight",
                                                                "self_attn.k_proj.weight",
                                                                "self_attn.v_proj.weight",
                                                                "self_attn.qkv_proj.weight",
                                                                "self_attn.q_proj.bias",
                                                                "self_attn.k_proj.bias",
                                                                "self_attn.v_proj.bias",
                                                                "self_attn.q_norm.weight",
                                                                "self_attn.k_norm.weight",
                                                                "self_attn.o_proj.weight",
                                                                "self_attn.o_proj.bias",
                                                                "self_attn.sinks",
                                                                "post_attention_layernorm.weight",
                                                                "post_attention_layernorm.weight",
                                                                "",
                                                                "",
                                                                "mlp.gate_proj.weight",
                                                                "mlp.up_proj.weight",
                                                                "mlp.gate_up_proj.weight",
                                                                "mlp.gate_proj.bias",
                                                                "mlp.up_proj.bias",
                                                                "mlp.down_proj.weight",
                                                                "mlp.down_proj.bias",
                                                                "post_feedforward_layernorm.weight"};
  return names[static_cast<u32>(tensor)];
}

bool is_joined(LayerTensor tensor) {
  switch (tensor) {
    case k:
    case v:
    case k_bias:
    case v_bias:
    case up:
    case up_bias:
      return true;
    default:
      return false;
  }
}

bool has_tensor(const ModelConfig& c, BlockKind kind, LayerTensor tensor) {
  if (tensor == router) return kind == BlockKind::attention;
  if (tensor == router_bias)
    return kind == BlockKind::attention && !traits(c.family).experts->tensors.router_bias.empty();
  if (kind == BlockKind::attention && tensor > router_bias) return false;
  if (tensor == sinks) return style(c.family).attention_sinks;
  const bool joined = traits(c.family).joined_projections;
  switch (tensor) {
    case q:
    case k:
    case v:
    case gate:
    case up:
      return !joined;
    case qkv:
    case gate_up:
      return joined;
    case q_bias:
    case k_bias:
    case v_bias:
      return c.qkv_bias();
    case q_norm:
    case k_norm:
      return c.qk_norm();
    case attention_branch_norm:
    case mlp_branch_norm:
      return style(c.family).branch_norms;
    case o_bias:
      return c.attention_bias;
    case gate_bias:
    case up_bias:
    case down_bias:
      return c.mlp_bias;
    default:
      return true;
  }
}

LinearModules linear_modules(const ModelConfig& c, BlockKind kind) {
  const u32 h = c.width, inner = c.inner(), queries = c.query_width(), keys = c.kv_heads() * c.head_size();
  LinearModules out;
  const bool joined = traits(c.family).joined_projections;
  if (joined) {
    out.add({"self_attn.qkv_proj", h, c.qkv_width()});
  } else {
    out.add({"self_attn.q_proj", h, queries});
    out.add({"self_attn.k_proj", h, keys});
    out.add({"self_attn.v_proj", h, keys});
  }
  out.add({"self_attn.o_proj", queries, h});
  if (kind == BlockKind::attention && c.experts.count != 0)
    out.add({.in = h, .out = c.experts.count, .router = true});
  if (kind == BlockKind::attention) return out;
  if (joined) {
    out.add({"mlp.gate_up_proj", h, 2 * inner});
  } else {
    out.add({"mlp.gate_proj", h, inner});
    out.add({"mlp.up_proj", h, inner});
  }
  out.add({"mlp.down_proj", inner, h});
  return out;
}

ProductModules product_modules(const ModelConfig& c) {
  if (traits(c.family).joined_projections)
    return {.qkv = {0, 1}, .o = {1, 1}, .router = {2, 1}, .gate_up = {2, 1}, .down = {3, 1}};
  return {.qkv = {0, 3}, .o = {3, 1}, .router = {4, 1}, .gate_up = {4, 2}, .down = {6, 1}};
}

std::vector<u64> shape_of(const ModelConfig& c, LayerTensor tensor) {
  const u64 h = c.width, inner = c.inner(), queries = c.query_width(),
            keys = u64{c.kv_heads()} * c.head_size();
  switch (tensor) {
    case input_norm:
    case attention_branch_norm:
    case mlp_norm:
    case mlp_branch_norm:
    case o_bias:
    case down_bias:
      return {h};
    case q:
      return {queries, h};
    case k:
    case v:
      return {keys, h};
    case qkv:
      return {c.qkv_width(), h};
    case q_bias:
      return {queries};
    case k_bias:
    case v_bias:
      return {keys};
    case q_norm:
    case k_norm:
      return {c.head_size()};
    case o:
      return {h, queries};
    case sinks:
      return {c.heads};
    case router:
      return {c.experts.count, h};
    case router_bias:
      return {c.experts.count};
    case gate:
    case up:
      return {inner, h};
    case gate_up:
      return {2 * inner, h};
    case gate_bias:
    case up_bias:
      return {inner};
    case down:
      return {h, inner};
  }
  CHECK(false, static_cast<u32>(tensor));
}

u32 tensor_index(const ModelConfig& c, BlockKind kind, LayerTensor tensor) {
  if (!has_tensor(c, kind, tensor)) return none;
  u32 index = 0;
  for (u32 before = 0; before < static_cast<u32>(tensor); ++before)
    index += has_tensor(c, kind, static_cast<LayerTensor>(before));
  return index;
}

}  // namespace tidepool::llama
