// Frames finds the frame of a chunk in a tier at a position, and OnDevice that of a replica in an arc.
#pragma once

#include <vector>

#include "base/check.h"
#include "planner/residence.h"

namespace tidepool {

class Frames {
 public:
  Frames(const std::vector<Arc>& arcs, Tier tier, u64 chunks, i32 turn)
      : arcs_(arcs), tier_(tier), turn_(turn), by_first_(chunks) {
    for (u32 a = 0; a < arcs.size(); ++a) by_first_[index(arcs[a].first)].push_back(a);
  }

  Frame of_arc(u32 a) const { return {.tier = tier_, .offset = arcs_[a].offset, .bytes = arcs_[a].bytes}; }

  // Index of the arc of a shard, or of the other content whose first chunk is `first`. With layers over
  // devices, the arc of that device.
  u32 arc_at(ChunkId first, bool shard, i32 position, u32 device = 0) const {
    for (u32 a : by_first_[index(first)]) {
      if ((arcs_[a].spread == Spread::shard) != shard || arcs_[a].device != device) continue;
      const Span s = arcs_[a].span;  // not `placed`: a tail may overlap the next arc's early start
      if (position <= s.end && position >= s.begin) return a;
      if (s.begin < 0 && position >= s.begin + turn_) return a;
    }
    CHECK(false, index(first), position, name(tier_));
    return 0;
  }

  Frame at(ChunkId first, i32 position) const { return of_arc(arc_at(first, false, position)); }

 private:
  const std::vector<Arc>& arcs_;
  Tier tier_;
  i32 turn_;
  std::vector<std::vector<u32>> by_first_;
};

// OnDevice holds the chunks that one replica has in an arc of the device tier, and their frame.
struct OnDevice {
  ChunkId first{};
  u32 count = 0;
  Frame frame;
};

inline OnDevice on_device(const Layout& layout, const Arc& arc, u32 replica) {
  const Held held = held_by(layout, arc.first, arc.count, arc.spread, replica);
  return {held.first,
          held.count,
          {.tier = Tier::device,
           .device = static_cast<u16>(arc.device + replica),
           .offset = arc.offset,
           .bytes = layout.bytes(held.first, held.count)}};
}

// Consecutive chunks of `whole`.
inline OnDevice part_of(const Layout& layout, const OnDevice& whole, ChunkId first, u32 count) {
  OnDevice out{first, count, whole.frame};
  out.frame.offset += layout.bytes(whole.first, index(first) - index(whole.first)).value;
  out.frame.bytes = layout.bytes(first, count);
  return out;
}

}  // namespace tidepool
