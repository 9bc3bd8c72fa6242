// Tensors of softmax attention.
#pragma once

#include "model/layer_tensors.h"

namespace tidepool::softmax {

// Each family has some of them.
enum class Role : u8 {
  q = mixer_roles,
  k,
  v,
  qkv,     // in families whose q, k and v are one tensor
  q_bias,  // or the bias of qkv
  k_bias,
  v_bias,
  q_norm,
  k_norm,
  o,
  o_bias,
  sinks,  // a score per head that takes a share of its softmax
};

void add_tensors(const ModelConfig&, u32 layer, LayerTensors&);

}  // namespace tidepool::softmax
