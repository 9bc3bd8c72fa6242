// Several versions of the state on disk add to a plan: slots for each trained chunk, and the moments at which
// state that rests elsewhere is written to its slot.
//
// An update changes a chunk once per step, and until the next update its content stays as it is. So what
// rests on a device or in the host is written while the backward runs, when the disk has least to do. In fp16
// parameters die before that (docs/decisions/0018-homes-end-where-content-dies.md), and are written after
// their update.
#pragma once

#include <vector>

#include "planner/residence.h"
#include "planner/segment_writer.h"

namespace tidepool {

// True if the chunk is part of the state that a commit counts on: it is trained, and this node keeps it.
bool is_in_commit(const Layout&, ChunkId);

// First slots of all chunks of the commit, side by side in the order of ids: they do not depend on homes, so
// that a run with other budgets finds them. RETURNS: by chunk, frames from offset 0 on.
std::vector<Frame> make_slots(const Layout&, Bytes& end);

// Host arcs through which chunks at home on a device pass on their way to their slots: two, as large as the
// largest such chunk, so that one is filled while the other is written. Empty: nothing trained rests on a
// device.
std::vector<Arc> persist_buffers(const ResidenceInput&, const DeviceTier&);

// Persist is the copy of a resting chunk to its slot.
struct Persist {
  ChunkId chunk{};
  Moment when;
  u32 buffer = none;  // of persist_buffers(), in turn; none: the chunk rests in the host
};
// In order. Empty with one version.
std::vector<Persist> ordered_persists(const ResidenceInput&, const DeviceTier&, const HostTier&);

// Moment after which everything that a step has changed is on disk, if what rests elsewhere is written too.
Moment moment_of_commit(const Program&, const std::vector<Persist>&);

// Emits the ops of one Persist. `buffer`: its frame in the host, if the chunk rests on a device.
void emit_persist(SegmentWriter&, const Plan&, ChunkId, const Frame& buffer);
// Emits the op that makes a commit. It reads all slots: so it follows every write of the step, and the next
// step's writes follow it. `scalars`: frame of the step's numbers, of which it needs the loss; used if
// updates do not wait.
void emit_commit(SegmentWriter&, const Plan&, ChunkId scalars_id, const Frame& scalars);

}  // namespace tidepool
