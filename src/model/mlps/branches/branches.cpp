#include "model/mlps/branches/branches.h"

namespace tidepool::branches {
namespace {

void add_tensors(const ModelConfig& c, u32, LayerTensors& out) {
  out.add_norm(NormRole::expert_branch, traits(c.family).experts->tensors.norms.expert_branch, c.width);
}

MlpWidths widths(const ModelConfig&, u32) { return {}; }

// Elements of a branch.
u64 elements_of(const Layer& l) { return u64{rows_of(l.c)} * l.config().width; }

void forward(const Layer& l, const MlpForward& m) {
  add_norm(l, NormRole::expert_branch, m.branches.at(elements_of(l)), m.branches, m.sum.branch.value);
  add_branch(l, m.sum);
}

// m.dout is the gradient of the dense branch too, and in its place.
void backward(const LayerGradients& s, const MlpBackward& m) {
  const u64 of_experts = elements_of(s.layer);
  branch_norm_gradient(s, NormRole::expert_branch, s.b.experts.branches.at(of_experts), m.dout,
                       s.b.experts.branches_grad.at(of_experts));
}

}  // namespace

const Mlp row = {.tensors = add_tensors, .widths = widths, .forward = forward, .backward = backward};

}  // namespace tidepool::branches
