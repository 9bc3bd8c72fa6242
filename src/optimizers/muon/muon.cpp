#include "optimizers/muon/muon.h"

#include "tidepool/model_graph.h"

namespace tidepool {

UpdateStep muon_step(const OptimizerSettings& settings, u64) {
  const double share = 1 - settings.muon_momentum;
  return {.unclipped = {.factors = {static_cast<float>(settings.muon_momentum), static_cast<float>(share),
                                    static_cast<float>(settings.learning_rate),
                                    settings.muon_nesterov ? 1.0f : 0.0f},
                        .decay = static_cast<float>(1 - settings.learning_rate * settings.weight_decay)},
          .of_gradient = {share}};
}

bool takes_orthogonal(const Tensor& tensor) {
  const bool in_layer = tensor.kind == TensorKind::matrix || tensor.kind == TensorKind::router ||
                        tensor.kind == TensorKind::expert;
  return in_layer && tensor.shape.size() == 2;
}

}  // namespace tidepool
