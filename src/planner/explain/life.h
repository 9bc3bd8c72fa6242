// Where chunks are while a segment runs, read back from the finished plan: what --explain answers from.
#pragma once

#include <optional>
#include <vector>

#include "tidepool/plan.h"

namespace tidepool {

// An op that moves or uses a chunk.
struct Touch {
  u32 op = 0;
  Access access{};
  Frame frame;  // of this chunk alone
};

// A chunk's content in one tier without a break. A body is a circle: `end` at `ops` or beyond lies in the
// next turn.
struct TierStay {
  ChunkId chunk{};
  Frame frame;
  u32 begin = 0, end = 0;  // first and last op that touch it
  bool whole = false;      // it rests there, or nothing in the segment fills it anew
};

class Life {
 public:
  // Both must outlive it.
  Life(const Plan&, const Segment&);

  u32 ops() const { return static_cast<u32>(segment_.ops.size()); }
  bool circular() const { return segment_.kind == SegmentKind::body; }
  const Segment& segment() const { return segment_; }

  const std::vector<Touch>& touches(ChunkId id) const { return touches_[index(id)]; }  // by op
  const std::vector<TierStay>& stays() const { return stays_; }

  // Whether the content is there while op `op` runs.
  bool covers(const TierStay&, u32 op) const;

  // The next touch after op `after`, in this tier and device of it if given; `ahead` ops later, in the next
  // turn of a body if need be. none: not before the segment ends.
  struct Next {
    Touch touch;
    u32 ahead = 0;
  };
  std::optional<Next> next(ChunkId, u32 after, const Frame* in = nullptr) const;

  // Bytes that are in a tier (of device 0) while op `op` runs.
  Bytes in_use(Tier, u32 op) const;

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
