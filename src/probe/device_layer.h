// DeviceLayer runs one layer of a model on a device, forward and backward with its inside recomputed. Its
// time, less the time of the kernels that memory bounds, shows the rate that its products reach.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "executor/device.h"
#include "kernels/kernels.h"
#include "tidepool/model_graph.h"

namespace tidepool {

class DeviceLayer {
 public:
  // REQUIRES: `memory` lies in device.memory(), has at least bytes_of(graph), and nothing else uses it while
  // the layer runs. The device outlives the layer.
  static Result<std::unique_ptr<DeviceLayer>> create(MeasuredDevice&, ModelGraph,
                                                     std::span<std::byte> memory);
  static Bytes bytes_of(const ModelGraph&);
  DeviceLayer(const DeviceLayer&) = delete;

  void run() { run(device_.kernels()); }
  double flops() const;  // per run

 private:
  DeviceLayer(MeasuredDevice& device, ModelGraph graph) : device_(device), graph_(std::move(graph)) {}
  Result<void> place(std::span<std::byte> memory);
  void run(Kernels&);

  MeasuredDevice& device_;
  const ModelGraph graph_;
  std::byte *param_ = nullptr, *workspace_ = nullptr;  // param: one window
  float* accumulator_ = nullptr;
  Values input_, output_, first_grad_, grad_;  // [B, T, H]
};

// Kernels of one run.
std::vector<KernelCost> layer_costs(const ModelGraph&);

}  // namespace tidepool
