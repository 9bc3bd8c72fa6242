#include "model/mixers/mamba/tensors.h"

#include "model/mixers/gated_delta/frames.h"
#include "tidepool/refused_adapters.h"

namespace tidepool::mamba {

void add_tensors(const ModelConfig& c, u32, LayerTensors& out) {
  const DeltaShape s = gated_delta::delta_shape(c);
  const MambaNames& names = style(c.family).mamba_names;
  const u32 h = c.width, heads = s.value_heads, inner = s.value_columns();
  out.add_matrix(Role::in, names.in, s.columns(), h);
  if (c.mamba.bias) out.add_bias(Role::in_bias, names.in, s.columns());
  out.add(Role::convolution,
          {.path = names.convolution, .suffix = ".weight", .rows = s.channels(), .taps = s.taps});
  if (c.mamba.convolution_bias) out.add_bias(Role::convolution_bias, names.convolution, s.channels());
  out.add(Role::dt_bias, {.path = names.dt_bias, .rows = heads, .init = Init::ones});
  out.add(Role::a_log, {.path = names.a_log, .rows = heads, .init = Init::log_number});
  out.add(Role::skip, {.path = names.skip, .rows = heads, .init = Init::ones});
  out.add(Role::norm, {.path = names.norm, .suffix = ".weight", .rows = inner, .init = Init::ones});
  LayerTensor& last = out.add_matrix(Role::out, names.out, h, inner);
  last.residual = true, last.adapted = !refuses_adapter(c.family, names.out);
  if (c.mamba.bias) out.add_bias(Role::out_bias, names.out, h);
}

}  // namespace tidepool::mamba
