#include "model/mlps/none/none.h"

namespace tidepool::no_mlp {
namespace {

void add_tensors(const ModelConfig&, u32, LayerTensors&) {}
MlpWidths widths(const ModelConfig&, u32) { return {}; }

}  // namespace

const Mlp row = {.tensors = add_tensors, .widths = widths};

}  // namespace tidepool::no_mlp
