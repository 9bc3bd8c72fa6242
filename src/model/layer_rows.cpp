// Rows of mixers and MLPs, by kind.
#include <array>

#include "model/layer_parts.h"
#include "model/mixers/gated_delta/gated_delta.h"
#include "model/mixers/latent/latent.h"
#include "model/mixers/mamba/mamba.h"
#include "model/mixers/none/none.h"
#include "model/mixers/softmax/softmax.h"
#include "model/mlps/branches/branches.h"
#include "model/mlps/experts/experts_mlp.h"
#include "model/mlps/glu/glu.h"
#include "model/mlps/none/none.h"
#include "model/mlps/plain/plain.h"

namespace tidepool {

const Mixer& mixer_row(MixerKind kind) {
  static constexpr std::array rows = {&softmax::row, &latent::row, &gated_delta::row, &mamba::row,
                                      &no_mixer::row};
  return *rows[static_cast<u32>(kind)];
}

const Mlp& mlp_row(MlpKind kind) {
  static constexpr std::array rows = {&plain::row, &glu::row,    &experts::row,
                                      &plain::row, &no_mlp::row, &branches::row};
  return *rows[static_cast<u32>(kind)];
}

}  // namespace tidepool
