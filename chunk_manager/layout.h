// Layout: cuts every window into chunk sets and numbers all chunks of a step.
#pragma once

#include <vector>

#include "tidepool/model_graph.h"

namespace tidepool {

struct LayoutOptions {
  u64 target_elements = 0;  // of a cut; rounded so that a window's cuts are equal
  u32 micro_batches = 1;    // per sweep and device: how many activations of a block live at once there
  u32 devices = 1;
};

// First chunk ids of a window's kinds; cut c of a kind is `first + c`. Of a window that is not trained, only
// `param` is valid. Each device owns a run of cuts, its shard: it alone fetches their parameters, sums their
// gradients, and hands these down.
struct WindowChunks {
  u32 cuts = 0;
  u32 shard_cuts = 0;  // of device 0: of no device are there more. With one device all
  bool trains = true;
  ChunkId param{}, master{}, momentum{}, variance{},
      grad{};                       // master: or master_low, as the precision has it
  std::vector<ChunkId> grad_accum;  // by use: a tied window has one per block that reads it
  // By use: what device 0's micro-batches sum up to, before that is reduced to grad_accum. Device d's
  // begins d * cuts later. With one device it is grad_accum itself.
  std::vector<ChunkId> local_accum;

  u32 owner(u32 cut) const { return cut / shard_cuts; }
  u32 shard_begin(u32 device) const { return device * shard_cuts < cuts ? device * shard_cuts : cuts; }
  u32 shard_size(u32 device) const { return shard_begin(device + 1) - shard_begin(device); }
};

// A value: same graph and options give the same ids.
struct Layout {
  Precision precision{};
  u64 target_elements = 0;
  u32 micro_batches = 1;
  u32 devices = 1;
  bool trains = true;  // any window; else there are parameters, and what a forward needs
  std::vector<Chunk> chunks;
  std::vector<WindowChunks> windows;
  // Device 0's; device d's is d later. m counts a device's micro-batches of one sweep.
  std::vector<ChunkId> activation;       // [block * micro_batches + m], valid for block >= 1
  std::vector<ChunkId> kept;             // [block * micro_batches + m], valid where Block::kept > 0; training
  std::vector<ChunkId> activation_grad;  // [m]; training
  std::vector<ChunkId> batch;            // [m]
  ChunkId workspace{}, scalars{};

  const Chunk& chunk(ChunkId id) const { return chunks[index(id)]; }
  Bytes bytes(ChunkId first, u32 count) const;
  // Whether parameters are dead from their last use in a step until their update: any, or a window's.
  bool params_die() const { return trains && made_by_update(Kind::param, precision); }
  bool params_die(u32 window) const {
    return windows[window].trains && made_by_update(Kind::param, precision);
  }
  // The kinds that outlive a step, in the operand order of updates: param, and where the window is trained
  // master? or master_low?, momentum, variance.
  std::vector<ChunkId> state(u32 window, u32 cut) const;
  // What an update reads: `grad`, or in fp32 the first accumulator.
  ChunkId gradient(u32 window, u32 cut) const;
};

Layout make_layout(const ModelGraph&, const LayoutOptions&);

inline ChunkId offset_id(ChunkId first, u32 by) { return ChunkId{index(first) + by}; }

}  // namespace tidepool
