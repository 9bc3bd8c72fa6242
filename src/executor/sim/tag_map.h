// What each byte range of one tier holds: (chunk, version), or nothing that anyone may read.
#pragma once

#include <map>
#include <optional>

#include "base/types.h"

namespace tidepool {

struct Tag {
  ChunkId chunk{};
  u64 version = 0;
  u64 writer = settled;  // sequence of the op that is writing it
  static constexpr u64 settled = ~u64{0};

  bool operator==(const Tag&) const = default;
};

class TagMap {
 public:
  // [begin, end) now holds `tag`; whatever it overlaps is cut or gone.
  void set(u64 begin, u64 end, const Tag&);
  // Whether all of [begin, end) holds `tag`. A range set in pieces by one op must be asked in those pieces.
  bool holds(u64 begin, u64 end, const Tag&) const;
  // What the byte at `offset` holds.
  std::optional<Tag> at(u64 offset) const;

 private:
  struct Range {
    u64 end = 0;
    Tag tag;
  };
  void split(u64 at);
  std::map<u64, Range> ranges_;  // by begin; disjoint
};

}  // namespace tidepool
