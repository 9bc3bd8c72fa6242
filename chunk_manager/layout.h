// Layout cuts every window into chunk sets and numbers all chunks of a step.
#pragma once

#include <vector>

#include "tidepool/model_graph.h"
#include "tidepool/plan.h"
#include "tidepool/policy.h"

namespace tidepool {

struct LayoutOptions {
  u64 target_elements = 0;  // per cut; rounded so that a unit's cuts are equal
  u32 micro_batches = 1;    // per sweep and replica: activations of a block that are alive at once
  u32 devices = 1;          // of each node
  Parallel parallel = Parallel::data;
  u32 nodes = 1;
  u32 step_micro_batches = 1;  // of a node in a step, all sweeps and replicas: each has a loss
  u32 node = 0;  // whose layout it is: all nodes' have the same chunks, but other owners' state is not kept
  bool updates_wait = true;  // for the norm: only then parameters are long dead before an update makes them
  bool looks_up = false;     // rows of lookup_window() travel, if the model has one
};

// WindowChunks holds the first chunk ids of a window's kinds; cut c of a kind is `first + c`. If the window
// is frozen, only `param` is valid. Each replica owns a shard of consecutive cuts: it alone fetches their
// parameters, sums their gradients, and passes the gradients down. With several nodes, cuts are dealt to them
// (Chunk::owner): only the owner keeps a cut's state beside the parameters, and updates it. Cuts of one unit
// are alike, and are dealt in turn; those of several units are dealt by the work of their updates.
struct WindowChunks {
  // The cuts of each of the window's update_units(): equal ones near the target's size if the rule is
  // elementwise, else one.
  struct UnitCuts {
    u32 first_cut = 0, cuts = 0;
  };
  std::vector<UnitCuts> units;
  u32 cuts = 0;
  u32 shard_cuts = 0;       // most cuts of one replica. With one replica all cuts
  std::vector<u32> shards;  // [replica + 1] first cuts
  bool trains = true;
  ChunkId param{}, grad{};
  std::vector<ChunkId> state;       // of the slots that any unit has
  std::vector<ChunkId> grad_accum;  // by use: a tied window has one per block that reads it
  // By use: the sums of replica 0's micro-batches, before reduce_scatter adds them to grad_accum. Those of
  // replica r begin r * cuts later. With one replica local_accum is grad_accum.
  std::vector<ChunkId> local_accum;
  // Several nodes: node 0's sums of use 0. Those of node n and use u begin (u * nodes + n) * cuts later.
  ChunkId parts{};

  // The replica whose shard has the cut.
  u32 owner(u32 cut) const {
    u32 replica = 0;
    while (cut >= shards[replica + 1]) ++replica;
    return replica;
  }
  u32 shard_begin(u32 replica) const { return shards[replica]; }
  u32 shard_size(u32 replica) const { return shards[replica + 1] - shards[replica]; }
};

// Layout is a value: the same graph and options give the same ids.
struct Layout {
  Precision precision{};
  StateSlots state_slots;
  u64 target_elements = 0;
  u32 micro_batches = 1;
  u32 units = 1;  // pieces of these micro-batches
  u32 devices = 1, replicas = 1;
  u32 nodes = 1, node = 0;
  bool updates_wait = true;
  bool trains = true;  // true if any window trains; if false: only parameters and chunks of the forward
  Lookup lookup;
  std::vector<Chunk> chunks;
  std::vector<WindowChunks> windows;
  // Ids for replica 0; replica r's id is r higher. m counts a replica's micro-batches of one sweep, u their
  // pieces.
  std::vector<ChunkId> streams;    // [stream * units + u]; gradients in training only
  std::vector<ChunkId> kept;       // [block * units + u], valid where Block::kept > 0; training
  std::vector<ChunkId> batch;      // [m]
  std::vector<ChunkId> rows;       // [m], with a table that is looked up
  ChunkId workspace{}, scalars{};  // of device 0; device d's id is d higher
  ChunkId past{none};              // likewise; none: no block has a past
  ChunkId node_scalars{};  // several nodes: those of node 0; each node has one, and its own is not used

  const Chunk& chunk(ChunkId id) const { return chunks[index(id)]; }
  ChunkId stream(u32 stream, u32 u) const { return streams[u64{stream} * units + u]; }
  Bytes bytes(ChunkId first, u32 count) const;
  // Bytes of the largest shard of a kind of a window. `first`: the kind's first chunk.
  Bytes shard_bytes(ChunkId first) const;
  // True if this node updates the cut.
  bool owns(u32 window, u32 cut) const {
    return chunk(ChunkId{index(windows[window].param) + cut}).owner == node;
  }
  // True if parameters are dead from their last use in a step until their update: of any window, of one
  // window, or of one cut. Those that another node updates are dead until they arrive.
  bool params_die() const {
    return trains && (nodes > 1 || (updates_wait && made_by_update(Kind::param, precision)));
  }
  bool params_die(u32 window) const {
    return windows[window].trains && updates_wait && made_by_update(Kind::param, precision);
  }
  bool params_die(u32 window, u32 cut) const {
    return params_die(window) || (windows[window].trains && !owns(window, cut));
  }
  // Kinds that outlive a step, in the operand order of updates: param, then if this node updates the cut the
  // slots of its rule.
  std::vector<ChunkId> state(u32 window, u32 cut) const;
  // First chunks of all kinds that outlive a step. REQUIRES: the window is frozen, or there is one node.
  std::vector<ChunkId> state(u32 window) const;
  // Gradient that an update reads: `grad`, or in fp32 the first accumulator.
  ChunkId gradient(u32 window, u32 cut) const;
};

Layout make_layout(const ModelGraph&, const LayoutOptions&);

inline ChunkId offset_id(ChunkId first, u32 by) { return ChunkId{index(first) + by}; }

}  // namespace tidepool
