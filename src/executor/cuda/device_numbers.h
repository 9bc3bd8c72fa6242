// DeviceNumbers holds the numbers of a step that are not chunks in device memory: losses, norm partials, the
// step's result and the scalars of updates. The host gets a copy of the result.
//
// With several devices, each makes the losses of its micro-batches and the partials of its part of gradients,
// at the places where a single device would have them; all other places are zero. The norm adds the other
// devices' numbers to those of its device: each sum has one nonzero term, so the order does not matter.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <memory>
#include <vector>

#include "executor/cuda/cuda_memory.h"
#include "executor/lanes/lane_thread.h"
#include "executor/shared/norm_layout.h"
#include "executor/shared/step_arrays.h"
#include "executor/shared/step_results.h"
#include "executor/shared/step_source.h"
#include "executor/shared/update_index.h"

namespace tidepool {

struct DeviceNumbersPlace {
  int device = 0;               // CUDA's device number
  std::span<std::byte> memory;  // device memory, size as gpu_reserved() says
  cudaStream_t compute = nullptr;
};

// All work is on the compute lane's stream, which orders it.
// REQUIRES: the device is current.
// THREADS: the engine's thread, except for `result` and `evaluation_sums`.
class DeviceNumbers {
 public:
  // REQUIRES: all arguments outlive the object.
  static Result<std::unique_ptr<DeviceNumbers>> create(const Plan&, const ModelGraph&, StepSource&,
                                                       const DeviceNumbersPlace&);

  // Sets the scale of the next step.
  // REQUIRES: at rest.
  void set_loss_scale(const LossScale&);
  // RETURNS: the scale of a step whose backward begins, in device memory.
  // REQUIRES: `of_norm` did the `finish` of the previous step; its copy to the host is ordered before this
  // stream.
  const float* loss_scale(u64 step, const DeviceNumbers& of_norm);

  // RETURNS: the accumulators for the sums of a micro-batch, set to zero.
  Sums* begin_sums(u64 step, u32 micro_batch);
  Sums* sums(u64 step, u32 micro_batch) {
    return device_.sums + u64{slot_of(step)} * micro_batches_ + micro_batch;
  }

  // Sets the place to zero.
  RoutingPlace begin_routing(u64 step, u32 micro_batch);
  // Several nodes: copies the sums of a micro-batch to the host.
  // REQUIRES: the head's backward was enqueued.
  void fetch_sums(u64 step, u32 micro_batch);
  // Copies the routing of the device's micro-batches to the host.
  // REQUIRES: the head's backward of the last of them was enqueued.
  void fetch_routing(u64 step);
  // RETURNS: the accumulators for an evaluation's sums, by its slot in the lane: zero; if the op `continues`
  // the micro-batch of the evaluation before, what that has summed.
  Sums* begin_evaluation(u32 slot, bool continues);
  // [V]: logits of one row.
  float* logits() const { return device_.logits; }
  // [R] of an evaluation's slot; null: the objective has no output.
  float* outputs(u32 slot) const { return outputs_ == 0 ? nullptr : device_.outputs + slot * outputs_; }

  // Adds norm partials of a finished gradient: elements [begin, begin + elements) of the window.
  void add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad);
  // Adds another device's losses and partials to ours.
  // REQUIRES: the kernels that make them are ordered before this stream.
  void add(const DeviceNumbers& other, u64 step);
  // REQUIRES: all gradients of the step, and the numbers of all other devices, have been added.
  void finish(u64 step);
  // Several nodes, instead of finish(): takes the result that the host has made.
  void put_result(u64 step, const StepResult&);
  // RETURNS: scalars for updates of chunk sets on the device.
  // REQUIRES: `of_norm` did the `finish` of this step; with clipping, its copy to the host is ordered before
  // this stream.
  const UpdateScalars* scalars(u64 step, const UpdateRule&, const DeviceNumbers& of_norm);
  // The same for scalars that the host knows.
  const UpdateScalars* put_scalars(const UpdateScalars&);
  // Scratch of updates, in device memory.
  std::span<std::byte> update_scratch() const { return update_scratch_; }
  // RETURNS: decay segments in device memory.
  std::span<const DecaySegment> decay_of(u32 window, u32 cut) const { return decay_[window][cut]; }

  // Copies the sums of an evaluation's slot, and optionally its logits, to the host.
  void fetch_evaluation(u32 slot, bool with_logits);
  // REQUIRES: the copies to the host have ended.
  StepResult result(u64 step) const;
  // As DeviceLanes::loss_scale_of().
  LossScale loss_scale_of(u64 step) const;
  const Sums& sums(u64 step, u32 micro_batch) const;  // several nodes
  // Routing of the device's micro-batches; the losses of others are undefined. Empty without experts.
  std::span<const RouterLosses> router_losses(u64 step) const;  // [micro_batches]
  std::span<const i64> expert_tokens(u64 step) const;           // [experts()]
  u64 experts() const { return experts_; }                      // of all layers
  const Sums& evaluation_sums(u32 slot) const { return host_.evaluations[slot]; }
  std::span<const float> fetched_logits() const { return {host_.logits, vocabulary_}; }
  std::span<const float> fetched_outputs(u32 slot) const {
    return {host_.outputs + slot * outputs_, outputs_};
  }

 private:
  DeviceNumbers(const Plan&, const ModelGraph&, StepSource&, const DeviceNumbersPlace&);
  Result<void> take_memory(const StepArraySizes&, std::span<std::byte>);
  Result<void> bring_decay(const Plan&, const UpdateIndex&);
  Result<void> bring_shared();
  template <class T>
  Result<void> bring(T* to, std::span<const T> from, const char* what);
  u64 squares() const { return layout_.partials() + layout_.cells(); }
  u64 skipped_before(u64 step) const;
  static u32 slot_of(u64 step) { return static_cast<u32>(step % steps_kept); }

  const bool clipping_;
  const Precision precision_;
  const u32 micro_batches_, shares_;  // of a step's micro-batches: replicas of all nodes
  const bool several_devices_, several_nodes_;
  const u64 experts_;  // of all layers
  const u64 vocabulary_;
  u32 last_evaluation_ = 0;  // slot
  const u64 outputs_;        // of an evaluation's micro-batch; 0: none
  const NormLayout layout_;
  StepSource& source_;
  const int device_index_;
  const cudaStream_t stream_;
  std::unique_ptr<PinnedMemory> pinned_;

  LossScale first_scale_;  // the scale as it was set
  u64 first_step_ = 0;     // first step since then; 0: none yet
  u64 scale_of_ = 0;       // step whose scale was copied from the device of the norm
  StepArrays device_;
  HostStepArrays host_;
  std::span<std::byte> update_scratch_;
  std::vector<std::vector<std::span<const DecaySegment>>> decay_;  // [window][cut], in device memory
  std::array<u64, steps_kept> finished_{};                         // step finished in each slot
  std::array<u64, steps_kept> brought_{};  // step whose result was copied from the device of the norm
  std::array<u64, steps_kept> fetched_{};  // step whose routing was copied to the host
};

}  // namespace tidepool
