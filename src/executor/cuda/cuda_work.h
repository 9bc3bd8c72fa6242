// CudaWork runs ops on GPUs: it finds their operands and launches kernels and copies on the lane's stream.
#pragma once

#include <atomic>

#include "executor/cuda/collectives.h"
#include "executor/cuda/device_numbers.h"
#include "executor/cuda/stream_lane.h"
#include "executor/shared/batch_op.h"
#include "executor/shared/block_op.h"
#include "executor/shared/training_executor.h"

namespace tidepool {

struct CudaWorkParts {
  const Plan& plan;
  const ModelGraph& graph;
  struct Device {
    Kernels* kernels = nullptr;  // on the stream of its compute lane
    DeviceNumbers* numbers = nullptr;
  };
  std::vector<Device> devices;
  Collectives* collectives = nullptr;  // with several devices
  StepSource& source;
  const TierMemory& memory;
  EvaluationSums& evaluation;
  u64 seed = 0;
};

class CudaWork final : public StreamWork {
 public:
  explicit CudaWork(const CudaWorkParts&);

  Result<void> enqueue(const Issue&, u32 slot, cudaStream_t) override;
  Result<void> ended(const Issue&, u32 slot, Nanos took) override;
  std::string describe(const Issue&) const override;

  // Bytes copied so far over h2d or d2h.
  Bytes copied(LinkKind link) const {
    return Bytes{copied_[static_cast<u32>(link)].load(std::memory_order_relaxed)};
  }
  // Bytes that devices received from each other so far.
  Bytes collected() const { return Bytes{collected_.load(std::memory_order_relaxed)}; }
  // REQUIRES: at rest.
  void request_logits(const LogitsRequest& request) { logits_ = request; }

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
  DeviceNumbers& numbers(const Issue& issue) const {
    return *parts_.devices[issue.get().lane.device].numbers;
  }
  Kernels& kernels(const Issue& issue) const { return *parts_.devices[issue.get().lane.device].kernels; }
  bool is_head(const Issue&) const;
  bool wants_logits(const Issue&) const;

  const CudaWorkParts parts_;
  const BlockOpParts block_;
  std::array<std::atomic<u64>, link_count> copied_{};
  std::atomic<u64> collected_{0};
  LogitsRequest logits_;
};

}  // namespace tidepool
