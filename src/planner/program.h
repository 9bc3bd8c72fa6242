// The step program: the blocks' ops of one body in order, before any memory is thought of.
#pragma once

#include <vector>

#include "chunk_manager/layout.h"
#include "tidepool/plan.h"

namespace tidepool {

struct ProgramOptions {
  u32 micro_batches = 1;  // per step and device
  u32 sweeps = 1;         // divides micro_batches
  bool clipping = true;
  u32 devices = 1;
};

struct ProgramOp {
  OpKind kind{};
  u32 block = none;
  u32 micro_batch = none;  // of the step, on each device
  u32 sweep = 0;
  u32 window = none;
  u32 cut = none;
  bool first_accumulation = false;  // backward: the accumulators hold nothing yet
};

// One block's pass over all micro-batches of a sweep, as positions [first, last].
struct Pass {
  OpKind kind{};  // forward or backward
  u32 block = none;
  u32 sweep = 0;
  i32 first = 0, last = 0;
};

// Positions are indices into `ops`; devices run theirs side by side. With clipping a body is, per block, the
// updates of the last step's gradients and then the forward; after that the backward. Without, updates follow
// the gradient that they need. The head has no forward op: its backward does both. Of a window that is not
// trained there are no updates and no gradient; the backward ends at the last block (the first in forward
// order) that trains any. Of a model that is not trained at all there are the forward passes and the head's.
struct Program {
  ProgramOptions options;
  u32 sweep_micro_batches = 1;
  std::vector<ProgramOp> ops;
  std::vector<Pass> passes;              // in order
  std::vector<std::vector<i32>> update;  // [window][cut], as all by window: of those that are trained
  std::vector<std::vector<i32>> reduce;  // [window][use] several devices
  i32 last_of_updates = 0;               // of all windows
  std::vector<i32> gradient;             // [window]
  i32 norm = 0;
  i32 first_backward = 0;
  u32 last_backward_block = 0;

  i32 positions() const { return static_cast<i32>(ops.size()); }
  i32 first_update(u32 window) const;
  i32 last_update(u32 window) const;
  u32 step_micro_batch(u32 on_device, u32 device) const { return on_device * options.devices + device; }
};

// How many blocks before `block` read the window: which of its accumulators is the block's.
u32 use_of(const ModelGraph&, u32 block, u32 window);

Program make_program(const ModelGraph&, const Layout&, const ProgramOptions&);

}  // namespace tidepool
