#include "model/mixers/softmax/tensors.h"

namespace tidepool::softmax {

void add_tensors(const ModelConfig& c, u32 layer, LayerTensors& out) {
  const LayerStyle& style = tidepool::style(c.family);
  const SoftmaxNames& names = style.softmax_names;
  const u32 h = c.width, queries = c.query_width(layer), keys = c.key_width(layer);
  const u32 q_rows = (c.attention_gate() ? 2 : 1) * queries;
  const bool fused = traits(c.family).fused_projections, own = !c.reads_keys(layer);
  if (fused) {
    out.add_matrix(Role::qkv, names.qkv, c.qkv_width(layer), h).joined = {queries, keys, keys};
  } else {
    out.add_matrix(Role::q, names.q, q_rows, h);
    if (own) out.add_matrix(Role::k, names.k, keys, h).fused = true;
    if (own && !c.keys_are_values(layer)) out.add_matrix(Role::v, names.v, keys, h).fused = true;
  }
  const bool biases = style.all_biases || c.qkv_bias();
  if (biases && fused) out.add_bias(Role::q_bias, names.qkv, c.qkv_width(layer));
  if (biases && !fused) {
    out.add_bias(Role::q_bias, names.q, q_rows);
    if (own) out.add_bias(Role::k_bias, names.k, keys).fused = true;
    if (own && !c.keys_are_values(layer)) out.add_bias(Role::v_bias, names.v, keys).fused = true;
  }
  if (c.qk_norm() != QkNormKind::none) {
    const bool whole = c.qk_norm() == QkNormKind::whole;
    out.add_norm(Role::q_norm, names.q_norm, whole ? queries : c.head_size(layer));
    if (own) out.add_norm(Role::k_norm, names.k_norm, whole ? keys : c.head_size(layer));
  }
  out.add_matrix(Role::o, names.o, h, queries).residual = true;
  if (style.all_biases || c.output_bias()) out.add_bias(Role::o_bias, names.o, h);
  if (style.attention_sinks) out.add(Role::sinks, {.path = "self_attn.sinks", .rows = c.attention.heads});
}

}  // namespace tidepool::softmax
