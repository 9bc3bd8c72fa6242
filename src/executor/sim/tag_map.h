// TagMap says what each byte range of one tier holds: (chunk, version), or nothing that may be read.
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
  // Marks [begin, end) as `tag`; overlapping ranges are cut or removed.
  void set(u64 begin, u64 end, const Tag&);
  // True if all of [begin, end) holds `tag`.
  // REQUIRES: a range that one op set in pieces is queried in those pieces.
  bool holds(u64 begin, u64 end, const Tag&) const;
  // Tag of the byte at `offset`; none if it holds nothing.
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
