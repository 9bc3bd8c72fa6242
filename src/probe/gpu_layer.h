// GpuLayer runs one layer of a model on a GPU, forward and backward with its inside recomputed.
#pragma once

#include <span>

#include "kernels/kernels.h"
#include "probe/measured_device.h"
#include "tidepool/model_graph.h"

namespace tidepool {

class GpuLayer {
 public:
  // REQUIRES: `memory` has at least bytes_of(graph), and nothing else uses it while the layer runs.
  static Result<std::unique_ptr<GpuLayer>> create(MeasuredDevice&, ModelGraph, std::span<std::byte> memory);
  static Bytes bytes_of(const ModelGraph&);

  void run() { run(device_.kernels()); }
  double flops() const;  // per run

 private:
  GpuLayer(MeasuredDevice& device, ModelGraph graph) : device_(device), graph_(std::move(graph)) {}
  Result<void> place(std::span<std::byte> memory);
  void run(Kernels&);

  MeasuredDevice& device_;
  const ModelGraph graph_;
  std::byte *param_ = nullptr, *workspace_ = nullptr;  // param: one window
  float* accumulator_ = nullptr;
  Values input_, output_, first_grad_, grad_;  // [B, T, H]
};

}  // namespace tidepool
