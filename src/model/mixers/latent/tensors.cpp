#include "model/mixers/latent/tensors.h"

namespace tidepool::latent {

void add_tensors(const ModelConfig& c, u32, LayerTensors& out) {
  const LatentAttention& l = c.latent;
  const u32 h = c.width, queries = c.query_width(), low = l.kv_lora_rank + l.qk_rope_head_dim;
  constexpr std::string_view q_a = "self_attn.q_a_proj", kv_a = "self_attn.kv_a_proj_with_mqa",
                             o = "self_attn.o_proj";
  if (l.q_lora_rank == 0) {
    out.add_matrix(Role::q, "self_attn.q_proj", queries, h);
  } else {
    out.add_matrix(Role::q_a, q_a, l.q_lora_rank, h);
    if (c.attention.bias) out.add_bias(Role::q_a_bias, q_a, l.q_lora_rank);
    out.add_norm(Role::q_a_norm, "self_attn.q_a_layernorm", l.q_lora_rank);
    out.add_matrix(Role::q_b, "self_attn.q_b_proj", queries, l.q_lora_rank);
  }
  out.add_matrix(Role::kv_a, kv_a, low, h);
  if (c.attention.bias) out.add_bias(Role::kv_a_bias, kv_a, low);
  out.add_norm(Role::kv_a_norm, "self_attn.kv_a_layernorm", l.kv_lora_rank);
  out.add_matrix(Role::kv_b, "self_attn.kv_b_proj", c.attention.heads * (l.qk_nope_head_dim + l.v_head_dim),
                 l.kv_lora_rank);
  out.add_matrix(Role::o, o, h, c.attention.heads * l.v_head_dim).residual = true;
  if (c.attention.bias) out.add_bias(Role::o_bias, o, h);
}

}  // namespace tidepool::latent
