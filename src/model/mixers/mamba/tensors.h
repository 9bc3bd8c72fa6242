// Tensors of Mamba-2.
#pragma once

#include "model/layer_tensors.h"

namespace tidepool::mamba {

enum class Role : u8 {
  in = mixer_roles,  // gate, x, B, C and step in one matrix
  in_bias,
  convolution,
  convolution_bias,
  dt_bias,
  a_log,
  skip,
  norm,
  out,
  out_bias,
};

void add_tensors(const ModelConfig&, u32 layer, LayerTensors&);

}  // namespace tidepool::mamba
