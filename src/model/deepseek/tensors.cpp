#include "model/deepseek/tensors.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace tidepool::deepseek {

using enum LayerTensor;

u32 mlp_inner(const ModelConfig& c, BlockKind kind) {
  return kind == BlockKind::attention ? c.shared_inner() : c.inner();
}

std::string name(const ModelConfig& c, BlockKind kind, LayerTensor tensor) {
  const ExpertTensors& experts = traits(c.family).experts->tensors;
  if (tensor == router) return std::string(experts.router);
  if (tensor == correction) return std::string(experts.correction_bias);
  constexpr std::array<std::string_view, tensor_count> names = {"input_layernorm.weight",
                                                                "self_attn.q_proj.weight",
                                                                "self_attn.q_a_proj.weight",
                                                                "self_attn.q_a_proj.bias",
                                                                "self_attn.q_a_layernorm.weight",
                                                                "self_attn.q_b_proj.weight",
                                                                "self_attn.kv_a_proj_with_mqa.weight",
                                                                "self_attn.kv_a_proj_with_mqa.bias",
                                                                "self_attn.kv_a_layernorm.weight",
                                                                "self_attn.kv_b_proj.weight",
                                                                "self_attn.o_proj.weight",
                                                                "self_attn.o_proj.bias",
                                                                "post_attention_layernorm.weight",
                                                                "",
                                                                "",
                                                                "gate_proj.weight",
                                                                "up_proj.weight",
                                                                "down_proj.weight"};
  const std::string_view name = names[static_cast<u32>(tensor)];
  if (tensor < gate) return std::string(name);
  return fmt::format("{}.{}", kind == BlockKind::attention ? experts.shared : "mlp", name);
}

bool has_tensor(const ModelConfig& c, BlockKind kind, LayerTensor tensor) {
  switch (tensor) {
    case q:
      return c.latent.query_rank == 0;
    case q_a:
    case q_a_norm:
    case q_b:
      return c.latent.query_rank != 0;
    case q_a_bias:
      return c.latent.query_rank != 0 && c.attention_bias;
    case kv_a_bias:
    case o_bias:
      return c.attention_bias;
    case router:
    case correction:
      return kind == BlockKind::attention;
    case gate:
    case up:
    case down:
      return mlp_inner(c, kind) != 0;
    case absent:
      return false;
    default:
      return true;
  }
}

std::vector<u64> shape_of(const ModelConfig& c, BlockKind kind, LayerTensor tensor) {
  const LatentAttention& l = c.latent;
  const u64 h = c.width, queries = c.query_width(), inner = mlp_inner(c, kind);
  switch (tensor) {
    case input_norm:
    case mlp_norm:
    case o_bias:
      return {h};
    case q:
      return {queries, h};
    case q_a:
      return {l.query_rank, h};
    case q_a_bias:
    case q_a_norm:
      return {l.query_rank};
    case q_b:
      return {queries, l.query_rank};
    case kv_a:
      return {l.rank + l.turned, h};
    case kv_a_bias:
      return {l.rank + l.turned};
    case kv_a_norm:
      return {l.rank};
    case kv_b:
      return {u64{c.heads} * (l.plain + l.value_size), l.rank};
    case o:
      return {h, u64{c.heads} * l.value_size};
    case router:
      return {c.experts.count, h};
    case correction:
      return {c.experts.count};
    case gate:
    case up:
      return {inner, h};
    case down:
      return {h, inner};
    case absent:
      break;
  }
  return {};
}

LinearModules linear_modules(const ModelConfig& c, BlockKind kind) {
  const LatentAttention& l = c.latent;
  const u32 h = c.width, queries = c.query_width();
  LinearModules out;
  if (l.query_rank == 0) {
    out.add({"self_attn.q_proj", h, queries});
  } else {
    out.add({"self_attn.q_a_proj", h, l.query_rank});
    out.add({"self_attn.q_b_proj", l.query_rank, queries});
  }
  out.add({"self_attn.kv_a_proj_with_mqa", h, l.rank + l.turned});
  out.add({"self_attn.kv_b_proj", l.rank, c.heads * (l.plain + l.value_size)});
  out.add({"self_attn.o_proj", c.heads * l.value_size, h});
  const u32 inner = mlp_inner(c, kind);
  const bool shared = kind == BlockKind::attention;
  if (inner != 0) {
    out.add({shared ? "mlp.shared_experts.gate_proj" : "mlp.gate_proj", h, inner});
    out.add({shared ? "mlp.shared_experts.up_proj" : "mlp.up_proj", h, inner});
    out.add({shared ? "mlp.shared_experts.down_proj" : "mlp.down_proj", inner, h});
  }
  if (kind == BlockKind::attention) out.add({.in = h, .out = c.experts.count, .router = true});
  return out;
}

ProductModules product_modules(const ModelConfig& c, BlockKind kind) {
  ProductModules out;
  u32 next = 0;
  const auto take = [&](u32 count) { return JoinedModules{std::exchange(next, next + count), count}; };
  if (c.latent.query_rank == 0)
    out.q = take(1);
  else
    out.q_a = take(1), out.q_b = take(1);
  out.kv_a = take(1), out.kv_b = take(1), out.o = take(1);
  if (mlp_inner(c, kind) != 0) out.gate_up = take(2), out.down = take(1);
  if (kind == BlockKind::attention) out.router = take(1);
  return out;
}

u32 tensor_index(const ModelConfig& c, BlockKind kind, LayerTensor tensor) {
  if (!has_tensor(c, kind, tensor)) return none;
  u32 index = 0;
  for (u32 before = 0; before < static_cast<u32>(tensor); ++before)
    index += has_tensor(c, kind, static_cast<LayerTensor>(before));
  return index;
}

}  // namespace tidepool::deepseek
