// Nodes at rest: node 0 leads, and reaches the homes of all nodes; the others serve it until it lets them go.
#pragma once

#include <span>
#include <vector>

#include "executor/shared/net_lanes.h"
#include "executor/shared/state_at_rest.h"
#include "tidepool/plan.h"

namespace tidepool {

// LeadingHomes reaches homes wherever they are: a chunk is read at its owner, and parameters are written to
// every node. Whatever node 0 does with the state, loading weights or saving a checkpoint, needs no other
// code.
class LeadingHomes final : public StateAtRest {
 public:
  // REQUIRES: the plan is node 0's; the arguments outlive the object.
  LeadingHomes(const Plan&, StateAtRest& own, NetLanes&);

  Result<void> read_home(ChunkId, std::span<std::byte> out) override;
  Result<void> begin_write_home(ChunkId, std::span<const std::byte> content) override;
  Result<void> end_write_home(ChunkId) override;
  Result<void> clear_home(ChunkId) override;
  std::span<std::byte> home_memory(ChunkId) const override { return {}; }

  // Lets the other nodes go.
  Result<void> end();

 private:
  bool is_on(ChunkId, u32 node) const;
  Result<void> tell(u32 node, u64 what, ChunkId);
  Result<void> send_to_others(ChunkId, std::span<const std::byte> content);

  const Plan& plan_;
  StateAtRest& own_;
  NetLanes& net_;
  std::vector<u64> messages_;  // by node: of the next message
};

// Serves node 0 until it lets this node go.
// `buffer`: as large as the largest persistent chunk.
Result<void> serve_at_rest(const Plan&, StateAtRest& own, NetLanes&, std::span<std::byte> buffer);

}  // namespace tidepool
