// Occupancy tracks which bytes of a tier are taken at which positions of a turn, and finds the lowest bytes
// that are free over a span.
//
// Placing searches for every arc, often several times, so a search must not visit all placed arcs: that took
// 20 s for a plan of 25 thousand arcs. Positions form a binary tree. A node has the bytes taken over the
// whole of its range by one arc, and the bytes taken anywhere in its range. Both are merged to runs of bytes;
// a well packed tier has few runs.
#pragma once

#include <vector>

#include "base/types.h"

namespace tidepool {

class Occupancy {
 public:
  struct Range {
    i32 begin = 0, end = 0;  // positions, both included
  };

  explicit Occupancy(i32 positions);

  // Takes bytes [begin, end) at all positions of the range.
  // REQUIRES: begin < end.
  void take(Range, u64 begin, u64 end);

  // RETURNS: the lowest offset, not below `offset`, where `bytes` are free over the whole range.
  // REQUIRES: bytes > 0.
  u64 lowest_free(Range, u64 offset, u64 bytes) const;

 private:
  struct Run {
    u64 begin = 0, end = 0;  // bytes
  };
  using Runs = std::vector<Run>;  // sorted, and neither overlapping nor adjacent
  struct Node {
    Runs throughout;  // taken by arcs that span the node's positions
    Runs anywhere;    // `throughout`, and `anywhere` of the children
  };

  template <class Visit>
  void for_cover(Range, Visit&&) const;
  template <class Visit>
  void for_ancestors(i32 position, Visit&&) const;
  static void add(Runs&, Run);

  u64 leaves_ = 1;           // a power of two
  std::vector<Node> nodes_;  // 1 is the root; 2 n and 2 n + 1 are the children of n
};

}  // namespace tidepool
