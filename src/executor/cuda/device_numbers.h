// The numbers of a step that are not chunks, in the device's memory: losses, norm partials, the step's result
// and what AdamW makes of it. The host gets a copy of the result; nothing else of them leaves the device.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <memory>
#include <vector>

#include "executor/cuda/cuda_memory.h"
#include "executor/host/lane_thread.h"
#include "executor/host/norm_layout.h"
#include "executor/host/update_op.h"
#include "executor/step_arrays.h"

namespace tidepool {

// All on the compute lane's stream, which orders them; but for `result` and `evaluation_loss`, the engine's
// thread.
class DeviceNumbers {
 public:
  // `memory`: of the device, as gpu_reserved() says. All must outlive it.
  static Result<std::unique_ptr<DeviceNumbers>> create(const Plan&, const ModelGraph&, StepSource&,
                                                       std::span<std::byte> memory, cudaStream_t);

  // Where the head adds up the loss of a micro-batch: zero.
  double* begin_loss(u64 step, u32 micro_batch);
  // Likewise of an evaluation's, by its slot in the lane.
  double* begin_evaluation(u32 slot);
  // [V], for one row's.
  float* logits() const { return device_.logits; }

  // Norm partials of a finished gradient: elements [begin, begin + elements) of the window.
  void add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad);
  // REQUIRES: all gradients of the step have been added.
  void finish(u64 step);
  // For updates of chunk sets on the device. With clipping, after the step's `finish`.
  const AdamWScalars* scalars(u64 step);
  // In device memory.
  std::span<const DecaySegment> decay_of(u32 window, u32 cut) const { return decay_[window][cut]; }

  // What an evaluation's slot has summed, and its logits, to the host.
  void fetch_evaluation(u32 slot, bool with_logits);
  // REQUIRES: their copies have ended.
  StepResult result(u64 step) const;
  double evaluation_loss(u32 slot) const { return host_.evaluations[slot]; }
  std::span<const float> fetched_logits() const { return {host_.logits, vocabulary_}; }

 private:
  DeviceNumbers(const Plan&, const ModelGraph&, StepSource&, cudaStream_t);
  Result<void> take_memory(const StepArraySizes&, std::span<std::byte>);
  Result<void> bring_decay(const Plan&, const DecayIndex&);
  static u32 slot_of(u64 step) { return static_cast<u32>(step % steps_kept); }

  const bool clipping_;
  const Precision precision_;
  const u32 micro_batches_;
  const u64 vocabulary_;
  const NormLayout layout_;
  StepSource& source_;
  const cudaStream_t stream_;
  std::unique_ptr<PinnedMemory> pinned_;

  StepArrays device_;
  HostStepArrays host_;
  std::vector<std::vector<std::span<const DecaySegment>>> decay_;  // [window][cut], in device memory
  std::array<u64, steps_kept> finished_{};                         // which step's
};

}  // namespace tidepool
