// Tensors of the gated delta rule.
#pragma once

#include "model/layer_tensors.h"

namespace tidepool::gated_delta {

enum class Role : u8 {
  // The projections, side by side. In some families q, k, v and z are one tensor by key heads, and so are the
  // rates and decays.
  qkv = mixer_roles,
  z,
  rates,   // b
  decays,  // a
  convolution,
  dt_bias,
  a_log,
  norm,
  out,
  absent,  // the bias of a product without one
};

void add_tensors(const ModelConfig&, u32 layer, LayerTensors&);
// RETURNS: how many tensors the projections are.
u32 projections(const ModelConfig&);

}  // namespace tidepool::gated_delta
