#include "model/mixers/gated_delta/tensors.h"

#include "model/mixers/gated_delta/frames.h"

namespace tidepool::gated_delta {

// A_log is drawn as the logarithm of a number from 0.01 to 16, as transformers draws it.
void add_tensors(const ModelConfig& c, u32, LayerTensors& out) {
  const DeltaShape s = delta_shape(c);
  const u32 h = c.width, heads = s.value_heads, values = s.value_columns();
  if (traits(c.family).delta_by_key_head) {
    out.add_matrix(Role::qkv, "linear_attn.in_proj_qkvz", s.channels() + values, h);
    out.add_matrix(Role::rates, delta_names.both, 2 * heads, h).fused = true;
  } else {
    out.add_matrix(Role::qkv, "linear_attn.in_proj_qkv", s.channels(), h);
    out.add_matrix(Role::z, "linear_attn.in_proj_z", values, h).fused = true;
    out.add_matrix(Role::rates, delta_names.rates, heads, h).fused = true;
    out.add_matrix(Role::decays, delta_names.decays, heads, h).fused = true;
  }
  out.add(Role::convolution,
          {.path = "linear_attn.conv1d", .suffix = ".weight", .rows = s.channels(), .taps = s.taps});
  out.add(Role::dt_bias, {.path = "linear_attn.dt_bias", .rows = heads, .init = Init::ones});
  out.add(Role::a_log, {.path = "linear_attn.A_log", .rows = heads, .init = Init::log_uniform});
  out.add(Role::norm,
          {.path = "linear_attn.norm", .suffix = ".weight", .rows = s.value_size, .init = Init::ones});
  out.add_matrix(Role::out, "linear_attn.out_proj", h, values).residual = true;
}

u32 projections(const ModelConfig& c) { return traits(c.family).delta_by_key_head ? 2 : 4; }

}  // namespace tidepool::gated_delta
