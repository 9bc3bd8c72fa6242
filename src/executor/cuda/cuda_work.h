// CudaWork runs ops on GPUs: it finds their operands and launches kernels and copies on the lane's stream.
#pragma once

#include <vector>

#include "executor/cuda/collectives.h"
#include "executor/cuda/device_numbers.h"
#include "executor/cuda/node_numbers.h"
#include "executor/cuda/stream_lane.h"
#include "executor/shared/block_op.h"
#include "executor/shared/executor_common.h"

namespace tidepool {

struct CudaWorkDevice {
  Kernels* kernels = nullptr;  // on the stream of its compute lane
  DeviceNumbers* numbers = nullptr;
};

class CudaWork final : public StreamWork {
 public:
  // `collectives`: with several replicas, else null. `nodes`: with several nodes, else null.
  // REQUIRES: all arguments outlive the object.
  CudaWork(ExecutorCommon&, std::vector<CudaWorkDevice>, Collectives*, NodeNumbers* nodes);

  Result<void> enqueue(const Issue&, u32 slot, cudaStream_t) override;
  Result<void> ended(const Issue&, u32 slot, Nanos took) override;
  std::string describe(const Issue&) const override;

 private:
  Result<void> start(const Issue&, u32 slot, cudaStream_t);
  void copy(const Issue&, cudaStream_t);
  void forward(const Issue&, u32 slot);
  void backward(const Issue&);
  void gradient(const Issue&, cudaStream_t);
  void norm(const Issue&);
  void update(const Issue&, cudaStream_t);
  Result<void> all_gather(const Issue&);
  Result<void> reduce_scatter(const Issue&);
  DeviceNumbers& numbers(const Issue& issue) const { return *devices_[issue.get().lane.device].numbers; }
  Kernels& kernels(const Issue& issue) const { return *devices_[issue.get().lane.device].kernels; }
  bool is_head(const Issue&) const;
  bool wants_logits(const Issue&) const;
  bool continues(const Issue&) const;  // the head's op is not the first of its micro-batch

  ExecutorCommon& common_;
  const std::vector<CudaWorkDevice> devices_;
  Collectives* const collectives_;
  NodeNumbers* const nodes_;
  const BlockOpParts block_;
};

}  // namespace tidepool
