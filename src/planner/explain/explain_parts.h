// Functions that the explanations of ops and of chunks share.
#pragma once

#include <string>
#include <vector>

#include "planner/explain/explain.h"
#include "planner/explain/life.h"

namespace tidepool {

std::string explain_op(const ExplainInput&, const Life&, u32 op);
std::string explain_chunk(const ExplainInput&, const Life&, ChunkId);

// "grad of h.1 cut 0", "activation of h.2 m1"; `count` chunks that begin with `first`.
std::string content_name(const ExplainInput&, ChunkId first, u32 count = 1);
// "backward on compute, h.1, micro-batch 0"
std::string op_name(const ExplainInput&, const Segment&, u32 op);
// "host", or "device 1" if there are several devices
std::string memory_name(const Plan&, const Frame&);
// "12.3 MiB"
std::string size_name(Bytes);
// "op 44" or, beyond the segment's end, "op 3 of the next step"
std::string op_number(const Life&, u32 from, u32 ahead);

// Waiting is content that stays in a memory while op `op` runs, and that the op does not touch: it waits
// there for a later use. One entry per kind, window and block; soonest next use first.
struct Waiting {
  ChunkId first{};
  u32 count = 1;
  Bytes bytes{};
  u32 ahead = 0;  // ops until the next use of any of the chunks
};
std::vector<Waiting> waiting_at(const ExplainInput&, const Life&, const Frame& memory, u32 op);

}  // namespace tidepool
