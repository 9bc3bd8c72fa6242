// Tensors of latent attention.
#pragma once

#include "model/layer_tensors.h"

namespace tidepool::latent {

enum class Role : u8 {
  q = mixer_roles,  // in models whose q is made in one product; the others have the next four
  q_a,
  q_a_bias,
  q_a_norm,
  q_b,
  kv_a,
  kv_a_bias,
  kv_a_norm,
  kv_b,
  o,
  o_bias,
  absent,  // the bias of a product without one
};

void add_tensors(const ModelConfig&, u32 layer, LayerTensors&);

}  // namespace tidepool::latent
