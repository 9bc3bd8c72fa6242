// LayerLoad runs one GPT layer, forward and backward with its inside recomputed. Its time, less the time of
// the kernels that memory bounds, shows the rate that its products reach.
#pragma once

#include <memory>
#include <vector>

#include "io/arena.h"
#include "kernels/kernels.h"
#include "tidepool/model_graph.h"

namespace tidepool {

// Kernels of one run.
std::vector<KernelCost> layer_costs();

class LayerLoad {
 public:
  static Result<std::unique_ptr<LayerLoad>> create(Kernels&);
  LayerLoad(const LayerLoad&) = delete;

  void run();
  double flops() const;  // per run

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
