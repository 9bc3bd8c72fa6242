// Norms over all heads of q, and over all heads of k (QkNormKind::whole). The norms' kernels read whole rows,
// so q's and k's columns are copied to an array of their own and back.
#pragma once

#include "model/layer_parts.h"

namespace tidepool::softmax {

bool has_whole_norms(const Layer&);

struct WholeNorms {
  ConstValues qkv;  // [R, A]: before the norms
  Values out;       // [R, A], may be qkv: q and k after their norms, and v
  Values spare;     // [R, Q]: scratch
};
void whole_norms(const Layer&, const WholeNorms&);

struct WholeNormGradients {
  ConstValues qkv;      // [R, A]: before the norms
  Values dqkv;          // [R, A]: the gradient of the output becomes that of qkv, in place
  Values x, dx;         // [R, Q]: scratch
  NormScratch moments;  // at least whole_norm_partials()
};
void whole_norm_gradients(const LayerGradients&, const WholeNormGradients&);
u64 whole_norm_partials(const ModelGraph&);

}  // namespace tidepool::softmax
