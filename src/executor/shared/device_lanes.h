// The seam between an executor and what its devices are made of: the lanes compute, h2d and d2h of each
// device, and comm. All else is the executor's own.
#pragma once

#include <span>

#include "engine/executor.h"
#include "kernels/gradient/step_result.h"

namespace tidepool {

// The engine's thread calls everything here, but for result().
class DeviceLanes {
 public:
  virtual ~DeviceLanes() = default;

  // As Executor::submit, after the op was entered in the book. REQUIRES: an op of these lanes.
  virtual void submit(const Issue&, std::span<const u64> in_flight) = 0;
  // Blocks until what the lanes hold has completed. Nothing is submitted from then on.
  virtual void stop() = 0;

  // Any thread. REQUIRES: the `norm` of `step` has completed, at most two steps ago.
  virtual StepResult result(u64 step) const = 0;

  // ---- at rest (no op in flight)

  virtual void set_loss_scale(const LossScale&) = 0;
  // A forward, backward or gradient op to its end. Error: as of a step's op.
  virtual Result<void> run_at_rest(const Issue&) = 0;
  // The host may use frames of devices where they lie.
  virtual bool host_reaches_frames() const = 0;
  // A piece of a chunk between its home on a device and the staging memory. Blocks. `lane`: h2d or d2h.
  virtual Result<void> copy_at_rest(ChunkId, LaneKind lane, std::span<std::byte> to,
                                    std::span<const std::byte> from) = 0;
};

}  // namespace tidepool
