#include "model/block_costs.h"

#include "base/check.h"
#include "kernels/cross_entropy/cross_entropy_cost.h"
#include "kernels/embedding/embedding_cost.h"
#include "kernels/layer_norm/layer_norm_cost.h"
#include "kernels/matmul/matmul_cost.h"
#include "kernels/rms_norm/rms_norm_cost.h"
#include "model/block_layouts.h"

namespace tidepool {
namespace {

using Kernels = std::vector<KernelCost>;

struct HeadShape {
  HeadShape(const ModelGraph& g, const Block& block)
      : layer_norms(style(g.config.family) == LayerStyle::gpt2),
        rows(g.batch.rows()),
        h(g.config.width),
        vocabulary(g.config.vocab_size),
        weight_bytes(element_bytes(Kind::param, g.precision)),
        trained(trains(g, block)) {}

  KernelCost product(u64 n, u64 k) const { return matmul_cost(rows, n, k, weight_bytes); }
  KernelCost norm() const { return layer_norms ? layer_norm_cost(rows, h) : rms_norm_cost(rows, h); }
  KernelCost norm_backward() const {
    return layer_norms ? layer_norm_backward_cost(rows, h) : rms_norm_backward_cost(rows, h);
  }

  bool layer_norms;
  u64 rows, h, vocabulary, weight_bytes;
  bool trained;
};

Kernels head_forward(const HeadShape& s) {
  return {s.norm(), s.product(s.vocabulary, s.h), cross_entropy_cost(s.rows, s.vocabulary)};
}

// With more than one slice of the vocabulary the logits are made a second time.
Kernels head_backward(const HeadShape& s) {
  Kernels out = head_forward(s);
  if (s.vocabulary > vocabulary_slice) out.push_back(s.product(s.vocabulary, s.h));
  out.insert(out.end(), {cross_entropy_gradient_cost(s.rows, s.vocabulary), s.product(s.h, s.vocabulary)});
  if (s.trained) out.push_back(weight_gradient_cost(s.rows, s.h, s.vocabulary));
  out.push_back(s.norm_backward());
  return out;
}

u64 flops_of(const Kernels& kernels) {
  u64 sum = 0;
  for (const KernelCost& kernel : kernels) sum += kernel.flops();
  return sum;
}

}  // namespace

void set_kernels(Block& block, BlockKernels kernels) {
  block.forward_kernels = std::move(kernels.forward);
  block.backward_kernels = std::move(kernels.backward);
  block.recompute_kernels = std::move(kernels.recompute);
  block.forward_flops = flops_of(block.forward_kernels);
  block.backward_flops = flops_of(block.backward_kernels);
  block.recompute_flops = flops_of(block.recompute_kernels);
}

void set_costs(Block& block, const ModelGraph& graph) {
  CHECK(block.kind != BlockKind::layer, block.name);
  const HeadShape s(graph, block);
  if (block.kind == BlockKind::embedding)
    return set_kernels(block, {.forward = {embedding_cost(s.rows, s.h)},
                               .backward = {embedding_backward_cost(s.rows, s.h)},
                               .recompute = {}});
  set_kernels(block, {.forward = head_forward(s), .backward = head_backward(s), .recompute = {}});
}

}  // namespace tidepool
