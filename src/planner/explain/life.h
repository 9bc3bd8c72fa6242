// Life says where chunks are while a segment runs. It is read from the finished plan, for --explain.
#pragma once

#include <optional>
#include <vector>

#include "tidepool/plan.h"

namespace tidepool {

// Touch is an op that moves or uses a chunk.
struct Touch {
  u32 op = 0;
  Access access{};
  Frame frame;  // frame of this chunk alone
};

// TierStay is a chunk's content in one tier without interruption. A body is a circle: an `end` of `ops` or
// more lies in the next turn.
struct TierStay {
  ChunkId chunk{};
  Frame frame;
  u32 begin = 0, end = 0;  // first and last op that touch it
  bool whole = false;      // the chunk rests there, or nothing in the segment fills it anew
};

class Life {
 public:
  // REQUIRES: both arguments outlive this object.
  Life(const Plan&, const Segment&);

  u32 ops() const { return static_cast<u32>(segment_.ops.size()); }
  bool circular() const { return segment_.kind == SegmentKind::body; }
  const Segment& segment() const { return segment_; }

  const std::vector<Touch>& touches(ChunkId id) const { return touches_[index(id)]; }  // by op
  const std::vector<TierStay>& stays() const { return stays_; }

  // True if the stay holds the content while op `op` runs.
  bool covers(const TierStay&, u32 op) const;

  // Next touch after op `after`, `ahead` ops later; in a body it may lie in the next turn. If `in` is given,
  // only touches in its tier and device count. none: no touch before the segment ends.
  struct Next {
    Touch touch;
    u32 ahead = 0;
  };
  std::optional<Next> next(ChunkId, u32 after, const Frame* in = nullptr) const;

  // Bytes that are in the tier and device of `memory` while op `op` runs.
  Bytes in_use(const Frame& memory, u32 op) const;

 private:
  void collect_touches();
  void collect_stays();

  const Plan& plan_;
  const Segment& segment_;
  std::vector<std::vector<Touch>> touches_;
  std::vector<TierStay> stays_;
};

// Same tier and, on devices, the same device.
bool same_memory(const Frame&, const Frame&);

}  // namespace tidepool
