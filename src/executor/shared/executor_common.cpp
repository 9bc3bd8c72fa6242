#include "executor/shared/executor_common.h"

#include <utility>

#include "executor/lanes/lane_thread.h"

namespace tidepool {

ExecutorCommon::ExecutorCommon(const Plan& plan, const ModelGraph& graph, CorePool& pool,
                               std::vector<std::span<std::byte>> devices, const ExecutorRequest& request)
    : plan(plan),
      graph(graph),
      pool(pool),
      request(request),
      memory(std::move(devices), request.host_arena),
      updates(plan, graph),
      ledger(plan),
      book(plan, lane_depth, request.disk_depth),
      board(sequences_max(plan), book.ops_max()) {
  CHECK(request.host_arena.size() >= plan.tiers[static_cast<u32>(Tier::host)].planned_peak.value,
        request.host_arena.size());
}

}  // namespace tidepool
