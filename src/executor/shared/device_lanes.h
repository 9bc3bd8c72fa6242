// DeviceLanes is the seam between an executor and its devices, on any hardware: the lanes compute, h2d and
// d2h of each device, and comm. The executor does everything else.
#pragma once

#include <span>

#include "engine/executor.h"
#include "executor/shared/step_results.h"

namespace tidepool {

// THREADS: the engine's thread calls everything here, except result().
class DeviceLanes {
 public:
  virtual ~DeviceLanes() = default;

  // As Executor::submit, after the op was entered in the book.
  // REQUIRES: an op of these lanes.
  virtual void submit(const Issue&, std::span<const u64> in_flight) = 0;
  // Blocks until all ops of the lanes have completed.
  // REQUIRES: nothing is submitted afterwards.
  virtual void stop() = 0;

  // REQUIRES: the `norm` of `step` has completed, at most two steps ago.
  // THREADS: any thread may call.
  virtual StepResult result(u64 step) const = 0;
  virtual RoutingResult routing(u64 step) const = 0;
  // The loss scale that `step` began with.
  // REQUIRES: the `norm` of the step before has completed, or `step` is the first since the scale was set.
  // THREADS: any thread may call.
  virtual LossScale loss_scale_of(u64 step) const = 0;

  // ---- several nodes: called by the host's lane

  // Adds the partial sums of a gradient that this node has summed over all nodes: elements [begin, begin +
  // elements) of the window.
  virtual void add_gradient(u32 window, u64 begin, u64 elements, const std::byte* grad) = 0;
  // Packs this node's numbers of the step for the others.
  virtual void pack(u64 step, std::span<std::byte> packed) = 0;
  // As result().
  virtual u64 votes(u64 step) const = 0;

  // ---- at rest (no op in flight)

  virtual void set_loss_scale(const LossScale&) = 0;
  // As TimedAtRest::run_at_rest().
  virtual Result<void> run_at_rest(const Issue&, u32 times) = 0;
  // RETURNS: true if the host can access frames of devices in place.
  virtual bool host_reaches_frames() const = 0;
  // Copies a piece of a chunk between its home on a device and the staging memory. Blocks. `lane`: h2d or
  // d2h.
  virtual Result<void> copy_at_rest(ChunkId, LaneKind lane, std::span<std::byte> to,
                                    std::span<const std::byte> from) = 0;
};

}  // namespace tidepool
