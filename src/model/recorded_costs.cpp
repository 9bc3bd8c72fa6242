#include "model/recorded_costs.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/orthogonalize/orthogonalize.h"
#include "model/block_layouts.h"
#include "model/blocks.h"
#include "model/cost_recorder.h"

namespace tidepool {
namespace {

// FakeMemory gives out addresses that are compared and never dereferenced. Each array has its own address,
// and no frame reaches the next. So two arrays have one address only if the block's code puts them in one
// place.
class FakeMemory {
 public:
  template <class T>
  T* array() {
    last_ += apart;
    return reinterpret_cast<T*>(last_);
  }
  Values values(Precision precision) { return {array<std::byte>(), precision}; }

 private:
  static constexpr std::uintptr_t apart = std::uintptr_t{1} << 50;  // no frame is as large
  std::uintptr_t last_ = 0;
};

struct Recording {
  Recording(const ModelGraph& g, u32 block, u32 piece = 0)
      : graph(g), context{.kernels = recorder, .graph = g, .block = block, .piece = piece} {
    // One slice stands for all: slices save memory, and together cost as much as the whole vocabulary.
    context.slice_columns = g.config.head_rows();
    for (const u32 window : g.blocks[block].windows) {
      windows.push_back(memory.array<const std::byte>());
      gradients.push_back(g.windows[window].trainable ? memory.array<float>() : nullptr);
    }
  }

  ExpertStreams experts() {
    return {.post_attention = memory.values(graph.activations),
            .normed = memory.values(graph.activations),
            .routes = memory.array<std::byte>(),
            .sum = memory.array<float>(),
            .router_sums = memory.array<std::byte>(),
            .normed_grad = memory.array<float>(),
            .routes_grad = memory.array<float>(),
            .branches = memory.values(graph.activations),
            .branches_grad = memory.values(graph.activations)};
  }
  BatchView batch() {
    const auto array = [&](BatchArray which) {
      return graph.batch.arrays().has(which) ? memory.array<const i32>() : nullptr;
    };
    return {.tokens = array(BatchArray::tokens),
            .targets = array(BatchArray::targets),
            .starts = array(BatchArray::starts),
            .holes = graph.batch.holes ? memory.array<const KeyHole>() : nullptr,
            .table_tokens = array(BatchArray::table_tokens)};
  }

  const ModelGraph& graph;
  CostRecorder recorder;
  FakeMemory memory;
  std::vector<const std::byte*> windows;
  std::vector<float*> gradients;
  BlockContext context;
};

// Recorded with a kept inside. Without it the same kernels run, but some of their arrays share a place.
std::vector<KernelCost> forward(const ModelGraph& g, u32 block, u32 piece) {
  Recording r(g, block, piece);
  block_forward(r.context, {.windows = r.windows,
                            .batch = r.batch(),
                            .input = r.memory.values(g.activations),
                            .output = r.memory.values(g.activations),
                            .layer_inputs = r.memory.values(g.activations),
                            .shared_keys = r.memory.values(g.activations),
                            .experts = r.experts(),
                            .kept = r.memory.array<std::byte>(),
                            .past = r.memory.array<std::byte>(),
                            .workspace = r.memory.array<std::byte>(),
                            .head = {.sums = r.memory.array<Sums>()}});
  return r.recorder.take();
}

std::vector<KernelCost> backward(const ModelGraph& g, u32 block, u32 piece, Inside inside) {
  Recording r(g, block, piece);
  block_backward(r.context, {.windows = r.windows,
                             .batch = r.batch(),
                             .input = r.memory.values(g.activations),
                             .layer_inputs = r.memory.values(g.activations),
                             .shared_keys = r.memory.values(g.activations),
                             .experts = r.experts(),
                             .kept = inside == Inside::kept ? r.memory.array<const std::byte>() : nullptr,
                             .grad = r.memory.values(g.activations),
                             .layer_inputs_grad = r.memory.values(g.activations),
                             .shared_keys_grad = r.memory.values(g.activations),
                             .grad_accum = r.gradients,
                             .past = r.memory.array<std::byte>(),
                             .workspace = r.memory.array<std::byte>(),
                             .objective = {.sums = r.memory.array<Sums>()}});
  return r.recorder.take();
}

std::vector<KernelCost> recall(const ModelGraph& g, u32 block, u32 piece) {
  Recording r(g, block, piece);
  block_recall(r.context, {.windows = r.windows,
                           .batch = r.batch(),
                           .input = r.memory.values(g.activations),
                           .shared_keys = r.memory.values(g.activations),
                           .past = r.memory.array<std::byte>(),
                           .workspace = r.memory.array<std::byte>()});
  return r.recorder.take();
}

// RETURNS: the entries of `all` that are not in `part`. Searches from the end, where both lists are alike.
// REQUIRES: `part` is a subsequence of `all`.
std::vector<KernelCost> without(const std::vector<KernelCost>& all, const std::vector<KernelCost>& part) {
  std::vector<KernelCost> rest;
  auto next = part.rbegin();
  for (auto cost = all.rbegin(); cost != all.rend(); ++cost) {
    if (next != part.rend() && *next == *cost)
      ++next;
    else
      rest.push_back(*cost);
  }
  CHECK(next == part.rend(), all.size(), part.size());
  std::ranges::reverse(rest);
  return rest;
}

MatrixCost cost_of(const ModelGraph& graph, const UpdateRule& rule, const MatrixPlace& matrix) {
  CostRecorder recorder;
  orthogonalize(recorder, {.matrix = matrix,
                           .values = {nullptr, graph.precision},
                           .steps = rule.orthogonalization.steps,
                           .products = graph.activations});
  return {.rows = matrix.rows,
          .columns = matrix.columns,
          .workspace = orthogonalize_workspace(matrix, graph.activations),
          .kernels = recorder.take()};
}

u64 flops_of(const std::vector<KernelCost>& kernels) {
  u64 sum = 0;
  for (const KernelCost& kernel : kernels) sum += kernel.flops();
  return sum;
}

}  // namespace

void record_costs(ModelGraph& graph, u32 index) {
  Block& block = graph.blocks[index];
  const u32 pieces = graph.batch.pieces();
  const auto of_pieces = [&](auto of_piece) {
    std::vector<KernelCost> all;
    for (u32 piece = 0; piece < pieces; ++piece)
      for (const KernelCost& cost : of_piece(piece)) all.push_back(cost);
    return all;
  };
  const auto backward_with = [&](Inside inside) {
    return of_pieces([&](u32 piece) { return backward(graph, index, piece, inside); });
  };
  block.forward_kernels = of_pieces([&](u32 piece) { return forward(graph, index, piece); });
  block.backward_kernels = backward_with(Inside::kept);
  block.recompute_kernels = without(backward_with(Inside::recomputed), block.backward_kernels);
  if (block.past.value > 0)
    block.recall_kernels = of_pieces([&](u32 piece) { return recall(graph, index, piece); });
  block.forward_flops = flops_of(block.forward_kernels);
  block.backward_flops = flops_of(block.backward_kernels);
  block.recompute_flops = flops_of(block.recompute_kernels);
  block.recall_flops = flops_of(block.recall_kernels);
  block.piece_shares.clear();
  for (u32 piece = 0; piece < pieces && pieces > 1; ++piece) {
    const double rows = static_cast<double>(graph.batch.piece(piece).rows);
    const u64 flops = flops_of(forward(graph, index, piece));
    block.piece_shares.push_back(block.forward_flops == 0
                                     ? rows / static_cast<double>(graph.batch.rows())
                                     : static_cast<double>(flops) / static_cast<double>(block.forward_flops));
  }
}

void record_matrix_costs(ModelGraph& graph) {
  for (const Window& window : graph.windows)
    for (const Tensor& tensor : window.tensors) {
      const UpdateRule& rule = graph.rules[tensor.rule];
      if (!window.trainable || rule.place != UpdatePlace::streamed) continue;
      for (const MatrixPlace& matrix : matrices_of(tensor)) {
        const bool known = std::ranges::any_of(graph.matrix_costs, [&](const MatrixCost& cost) {
          return cost.rows == matrix.rows && cost.columns == matrix.columns;
        });
        if (!known) graph.matrix_costs.push_back(cost_of(graph, rule, matrix));
      }
    }
}

}  // namespace tidepool
