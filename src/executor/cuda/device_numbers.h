// The numbers of a step that are not chunks, in the device's memory: losses, norm partials, the step's result
// and what AdamW makes of it. The host gets a copy of the result.
//
// Of several devices each makes the losses of its micro-batches and the partials of the gradients that it
// owns, at the places where one device would; everywhere else it has zeros. The norm adds the others' numbers
// to those of its device: each is a number and zeros, so that the order does not matter.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <memory>
#include <vector>

#include "executor/cuda/cuda_memory.h"
#include "executor/shared/lane_thread.h"
#include "executor/shared/norm_layout.h"
#include "executor/shared/step_arrays.h"
#include "executor/shared/update_op.h"

namespace tidepool {

struct DeviceNumbersPlace {
  int device = 0;               // as CUDA counts
  std::span<std::byte> memory;  // of the device, as gpu_reserved() says
  cudaStream_t compute = nullptr;
};

// All on the compute lane's stream, which orders them; but for `result` and `evaluation_loss`, the engine's
// thread. The device must be current.
class DeviceNumbers {
 public:
  // All must outlive it.
  static Result<std::unique_ptr<DeviceNumbers>> create(const Plan&, const ModelGraph&, StepSource&,
                                                       const DeviceNumbersPlace&);

  // At rest: of the next step.
  void set_loss_scale(const LossScale&);
  // Of a step whose backward begins, in device memory. `of_norm`: whose `finish` the step before had; its
  // copy to the host is ordered before this stream.
  const float* loss_scale(u64 step, const DeviceNumbers& of_norm);

  // Where the head adds up the loss of a micro-batch: zero.
  double* begin_loss(u64 step, u32 micro_batch);
  // Likewise of an evaluation's, by its slot in the lane.
  double* begin_evaluation(u32 slot);
  // [V], for one row's.
  float* logits() const { return device_.logits; }

  // Norm partials of a finished gradient: elements [begin, begin + elements) of the window.
  void add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad);
  // Brings another device's losses and partials here. REQUIRES: what makes them is ordered before this
  // stream.
  void add(const DeviceNumbers& other, u64 step);
  // REQUIRES: all gradients of the step have been added, and all other devices' numbers.
  void finish(u64 step);
  // For updates of chunk sets on the device. `of_norm`: whose `finish` it was; with clipping, its copy to the
  // host is ordered before this stream.
  const AdamWScalars* scalars(u64 step, const DeviceNumbers& of_norm);
  // In device memory.
  std::span<const DecaySegment> decay_of(u32 window, u32 cut) const { return decay_[window][cut]; }

  // What an evaluation's slot has summed, and its logits, to the host.
  void fetch_evaluation(u32 slot, bool with_logits);
  // REQUIRES: their copies have ended.
  StepResult result(u64 step) const;
  double evaluation_loss(u32 slot) const { return host_.evaluations[slot]; }
  std::span<const float> fetched_logits() const { return {host_.logits, vocabulary_}; }

 private:
  DeviceNumbers(const Plan&, const ModelGraph&, StepSource&, const DeviceNumbersPlace&);
  Result<void> take_memory(const StepArraySizes&, std::span<std::byte>);
  Result<void> bring_decay(const Plan&, const DecayIndex&);
  Result<void> bring_shared();
  template <class T>
  Result<void> bring(T* to, std::span<const T> from, const char* what);
  u64 squares() const { return layout_.partials() + layout_.cells(); }
  u64 skipped_before(u64 step) const;
  static u32 slot_of(u64 step) { return static_cast<u32>(step % steps_kept); }

  const bool clipping_;
  const Precision precision_;
  const u32 micro_batches_;
  const bool several_devices_;
  const u64 vocabulary_;
  const NormLayout layout_;
  StepSource& source_;
  const int device_index_;
  const cudaStream_t stream_;
  std::unique_ptr<PinnedMemory> pinned_;

  LossScale first_scale_;  // as it was set
  u64 first_step_ = 0;     // since then; 0: none yet
  u64 scale_of_ = 0;       // the step whose scale was brought from the device of the norm
  StepArrays device_;
  HostStepArrays host_;
  std::vector<std::vector<std::span<const DecaySegment>>> decay_;  // [window][cut], in device memory
  std::array<u64, steps_kept> finished_{};                         // which step's
  std::array<u64, steps_kept> brought_{};                          // likewise, from the device of the norm
};

}  // namespace tidepool
