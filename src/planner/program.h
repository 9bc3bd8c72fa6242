// Program is the step program: the blocks' ops of one body in order, before memory is planned.
#pragma once

#include <algorithm>
#include <vector>

#include "chunk_manager/layout.h"
#include "chunk_manager/timeline.h"
#include "tidepool/plan.h"

namespace tidepool {

struct ProgramOptions {
  u32 micro_batches = 1;  // per step and replica
  u32 sweeps = 1;         // divides micro_batches
  u32 pieces = 1;         // of a micro-batch; filled in by make_program()
  bool clipping = true;
  u32 devices = 1;  // of each node
  Parallel parallel = Parallel::data;
  u32 nodes = 1;
  u32 node = 0;

  u32 replicas() const { return replicas_of(parallel, devices); }
  // Layers over devices: the device that runs a block; else 0, which stands for all.
  u32 device_of(u32 block) const { return parallel == Parallel::layers ? block % devices : 0; }
};

struct ProgramOp {
  OpKind kind{};
  u32 block = none;
  u32 micro_batch = none;  // number within the step, of each replica
  u32 piece = 0;
  u32 sweep = 0;
  u32 window = none;
  u32 cut = none;
  bool first_accumulation = false;  // backward: the accumulators are still empty
  u32 device = 0;                   // layers over devices: where it runs
};

// Pass is one block's run over all micro-batches of a sweep, as positions [first, last]. Of a block with a
// past, two passes alternate: for each micro-batch recall, piece by piece, and then backward, from the last
// piece to the first.
struct Pass {
  OpKind kind{};  // forward, recall or backward
  u32 block = none;
  u32 sweep = 0;
  i32 first = 0, last = 0;
  u32 device = 0;  // layers over devices: where it runs
  i32 stride = 1;  // positions from a micro-batch to the next
};

// StreamLife is one content of a stream within a sweep: made by the first of its passes, last used by the
// last.
struct StreamLife {
  u32 stream = none;
  u32 sweep = 0;
  bool whole = false;  // Stream::whole
  // Passes without another pass between them, forward and backward apart, on one device; with pieces one
  // pass, unless they share the content. Between two runs content may leave the device, and if they run on
  // different devices it must.
  struct Run {
    u32 first = 0, last = 0;  // indices into Program::passes
    bool writes = false;
  };
  std::vector<Run> runs;
};

// A streamed rule's update is three ops. Between them the direction travels, so that those of a window stand
// apart: before a block's forward the host updates its window, devices orthogonalize the next window's
// directions, and the host makes those of the window after that. Without clipping the same three follow the
// gradients, each one window later.
//
// Positions are indices into `ops`. Replicas run an op side by side; with layers over devices one device
// runs it. With clipping a body is, per block,
// the updates from the last step's gradients and then the forward; after all blocks the backward. Without
// clipping, each update follows its gradient. With several nodes, a cut's position of `combine` is where its
// owner sums the nodes' parts and where others send theirs, and its position of `update` is where others
// receive what its owner has updated: so all nodes have the same positions. The head has no forward op: its
// backward does both. A frozen window has no updates and no gradient; the backward ends at the lowest block
// that trains anything. If the whole model is frozen, the program has the forward passes and the head's.
struct Program {
  ProgramOptions options;
  u32 sweep_micro_batches = 1;
  std::vector<ProgramOp> ops;
  std::vector<Pass> passes;              // in order
  std::vector<StreamLife> lives;         // by sweep, then stream, then time
  std::vector<std::vector<i32>> update;  // [window][cut]; trained windows only, as in all members by window
  // [window][cut]: ops of streamed rules before the update. Of other rules both are the update.
  std::vector<std::vector<i32>> direction, orthogonalize;
  std::vector<std::vector<i32>> reduce;   // [window][use]; several replicas only
  std::vector<std::vector<i32>> combine;  // [window][cut]; several nodes only
  i32 last_of_updates = 0;                // over all windows
  std::vector<i32> gradient;              // [window]; several nodes: the first combine
  i32 norm = 0;
  i32 first_backward = 0;
  u32 last_backward_block = 0;
  std::vector<std::vector<u32>> readers;  // [window]: blocks that read it, in order; also frozen windows

  // The first block that reads the window: in backward the last, so it is where the gradient is finished.
  u32 first_reader(u32 window) const { return readers[window].front(); }
  i32 positions() const { return static_cast<i32>(ops.size()); }
  bool streams(u32 window, u32 cut) const { return direction[window][cut] != update[window][cut]; }
  // REQUIRES: an update or a direction.
  UpdatePart part(const ProgramOp& op) const {
    if (op.kind == OpKind::direction) return UpdatePart::direction;
    return streams(op.window, op.cut) ? UpdatePart::step : UpdatePart::whole;
  }
  // The first op that needs the window's gradient: a direction, or an update of another rule.
  i32 first_direction(u32 window) const;
  i32 first_update(u32 window) const;
  i32 last_update(u32 window) const;
  // Pieces of a sweep are numbered from micro-batch to micro-batch.
  u32 sweep_units() const { return sweep_micro_batches * options.pieces; }
  u32 unit(const ProgramOp& op) const {
    return op.micro_batch % sweep_micro_batches * options.pieces + op.piece;
  }
  // Position of a pass's op for a piece of its sweep.
  i32 position(const Pass& pass, u32 unit) const {
    const i32 piece = static_cast<i32>(unit % options.pieces), pieces = static_cast<i32>(options.pieces);
    const i32 before = pass.first + static_cast<i32>(unit / options.pieces) * pass.stride;
    return before + (pass.kind == OpKind::backward ? pieces - 1 - piece : piece);
  }
  // Units that share a content.
  u32 units_of(const StreamLife& life) const { return life.whole ? options.pieces : 1; }
  // Positions of the first and the last op of a run for the content that begins with a unit.
  Span touch(const StreamLife& life, const StreamLife::Run& run, u32 unit) const {
    const u32 last = unit + units_of(life) - 1;
    return {std::min(position(passes[run.first], unit), position(passes[run.first], last)),
            std::max(position(passes[run.last], unit), position(passes[run.last], last))};
  }
  u32 step_micro_batch(u32 of_replica, u32 replica) const {
    return (of_replica * options.nodes + options.node) * options.replicas() + replica;
  }
};

// Number of blocks before `block` that read the window. It is the index of the block's accumulator.
u32 use_of(const ModelGraph&, u32 block, u32 window);

Program make_program(const ModelGraph&, const Layout&, const ProgramOptions&);

}  // namespace tidepool
