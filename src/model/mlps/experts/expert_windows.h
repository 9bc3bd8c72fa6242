// Windows of experts: a group of consecutive experts of one layer, one expert after the other.
#pragma once

#include "kernels/experts/expert_range.h"
#include "model/window_builder.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// Places of an expert's tensors, in elements from the expert's first. One product reads gate and up: they are
// side by side, or one tensor with alternating columns (ExpertTensors::joined_in_out). Experts without biases
// have no places for them.
struct ExpertPlaces {
  u64 gate_up = 0, gate_up_bias = 0, down = 0, down_bias = 0;
  // From expert to expert: whole granules of the gradient's norm, so that groups of any size give the same
  // partial sums.
  u64 stride = 0;
};
// REQUIRES: a window of that many experts.
ExpertPlaces expert_places(const Window&, u32 experts);
// RETURNS: elements of an expert, with the padding to the next. 0: wrong_with_expert_rules() says why not.
u64 expert_elements(const ModelConfig&, Precision, std::vector<UpdateRule>);

// RETURNS: an expert's tensors in window order, such as "model.layers.3.mlp.experts.5.up_proj.weight".
std::vector<TensorSpec> expert_specs(const ModelConfig&, u32 layer, u32 expert);

// Groups of a layer's experts, each with at most `experts_per_group`.
u32 expert_groups(const ModelGraph&);
ExpertRange experts_of_group(const ModelGraph&, u32 group);

// RETURNS: the window of a group of layer `layer`: "layers.3.experts.8-15".
Window expert_window(const ModelGraph&, u32 layer, ExpertRange);

// RETURNS: "", or which expert takes another rule than the first of its layer: kernels step from expert to
// expert, so all have one layout.
std::string wrong_with_expert_rules(const ModelGraph&);

}  // namespace tidepool
