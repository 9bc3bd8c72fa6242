// SegmentWriter appends ops to a segment, and counts the versions of what they write.
#pragma once

#include <algorithm>
#include <vector>

#include "chunk_manager/layout.h"
#include "tidepool/plan.h"

namespace tidepool {

class SegmentWriter {
 public:
  // REQUIRES: the segment is empty and outlives the writer.
  SegmentWriter(Segment& segment, u64 chunks) : segment_(segment), versions_(chunks, 0) {}

  void begin(const Op& op) {
    op_ = op;
    op_.operands_begin = static_cast<u32>(segment_.operands.size());
  }
  // A writer leaves the next version; a movement keeps the current version. Chunks of a window that are
  // written together have one version from then on: some of them may have changed more often before.
  void operand(ChunkId first, u32 count, Access access, const Frame& frame) {
    const bool makes = access == Access::write && !is_movement(op_.kind);
    u32 current = versions_[index(first)];
    for (u32 i = 1; i < count && makes; ++i) current = std::max(current, versions_[index(first) + i]);
    segment_.operands.push_back({.first = first,
                                 .count = count,
                                 .version = makes ? current + 1 : current,
                                 .access = access,
                                 .frame = frame});
  }
  void end() {
    op_.operands_count = static_cast<u32>(segment_.operands.size()) - op_.operands_begin;
    segment_.ops.push_back(op_);
    for (const Operand& o : segment_.operands_of(op_))
      if (writes(o.access) && !is_movement(op_.kind))
        for (u32 i = 0; i < o.count; ++i) versions_[index(o.first) + i] = version_left(o);
  }

 private:
  Segment& segment_;
  std::vector<u32> versions_;
  Op op_;
};

// ---- ops between nodes. `clipping`: a parameter was updated for the step before.

inline Op op_between_nodes(OpKind kind, LaneKind lane, const Chunk& chunk, u32 peer, bool clipping) {
  return {.kind = kind,
          .lane = {.device = host_device, .kind = lane},
          .window = chunk.window,
          .cut = chunk.cut,
          .peer = static_cast<u16>(peer),
          .steps_back = static_cast<u8>(chunk.kind == Kind::param && clipping)};
}
inline void write_send(SegmentWriter& out, const Chunk& chunk, ChunkId id, const Frame& frame, u32 peer,
                       bool clipping) {
  out.begin(op_between_nodes(OpKind::send, LaneKind::net_send, chunk, peer, clipping));
  out.operand(id, 1, Access::read, frame);
  out.end();
}
inline void write_receive(SegmentWriter& out, const Chunk& chunk, ChunkId id, const Frame& frame, u32 peer,
                          bool clipping) {
  out.begin(op_between_nodes(OpKind::receive, LaneKind::net_receive, chunk, peer, clipping));
  out.operand(id, 1, Access::write, frame);
  out.end();
}

// Rows of the table that a micro-batch of the step looks up come into the host.
inline void write_lookup(SegmentWriter& out, const Layout& layout, ChunkId rows, const Frame& frame,
                         u32 micro_batch) {
  out.begin({.kind = OpKind::lookup,
             .lane = {.device = host_device, .kind = LaneKind::host},
             .block = layout.lookup.block,
             .micro_batch = micro_batch,
             .window = layout.lookup.window});
  out.operand(rows, 1, Access::write, frame);
  out.end();
}

}  // namespace tidepool
