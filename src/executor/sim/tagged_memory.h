// TaggedMemory finds wrong reads: every frame carries the (chunk, version) that was last written to it.
//
// An op's reads are checked when it starts and again when it ends, and its writes make the range unreadable
// in between. So a reader and a writer that overlap in time are caught, whichever came first.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "engine/executor.h"
#include "executor/sim/tag_map.h"

namespace tidepool {

class TaggedMemory {
 public:
  // Starts at rest: every persistent chunk is valid in its home.
  // REQUIRES: the plan outlives this object.
  explicit TaggedMemory(const Plan&);

  // RETURNS: empty, or the fault: "reads param window 1 cut 0 version 3 at host+4096: holds ...".
  std::string start(const Issue&);
  std::string finish(const Issue&);

 private:
  // Versions in a plan count from the segment's start; here they count from the start of the run.
  struct Run {
    u64 first_sequence = ~u64{0};
    SegmentKind kind{};
    std::vector<u64> base;  // [chunks]
  };
  struct Place {
    ChunkId chunk{};
    u64 begin = 0, end = 0;
  };

  const Run& run_of(const Issue&);
  std::string check_reads(const Issue&, const Run&, bool at_end);
  std::string check_one(const Operand&, const Place&, const Tag& expected) const;
  template <class Fn>
  void each_chunk(const Operand&, Fn&&) const;
  TagMap& map(const Frame&);

  const Plan& plan_;
  std::array<std::vector<u64>, segment_count> writes_;  // [segment][chunk] versions that the segment adds
  std::array<Run, 2> runs_;                             // newest first
  TagMap disk_, host_;
  std::vector<TagMap> devices_;
};

}  // namespace tidepool
