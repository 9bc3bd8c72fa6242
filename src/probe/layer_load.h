// One GPT layer, forward and backward with its inside recomputed: its time, less that of the kernels that
// memory bounds, tells what its products reach.
#pragma once

#include <memory>
#include <vector>

#include "io/arena.h"
#include "kernels/kernels.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// The kernels of one run.
std::vector<KernelCost> layer_costs();

class LayerLoad {
 public:
  static Result<std::unique_ptr<LayerLoad>> create(Kernels&);
  LayerLoad(const LayerLoad&) = delete;

  void run();
  double flops() const;  // of one run

 private:
  LayerLoad(Kernels& kernels, ModelGraph graph) : kernels_(kernels), graph_(std::move(graph)) {}
  Result<void> take_memory();

  Kernels& kernels_;
  const ModelGraph graph_;
  std::unique_ptr<Arena> arena_;
  std::byte* param_ = nullptr;  // bf16, the layer's window
  std::byte* workspace_ = nullptr;
  float *accumulator_ = nullptr, *input_ = nullptr, *output_ = nullptr, *grad_ = nullptr;
};

}  // namespace tidepool
