#include "executor/cuda/node_numbers.h"

#include <algorithm>

namespace tidepool {

NodeNumbers::NodeNumbers(ExecutorCommon& common, std::span<const std::unique_ptr<DeviceNumbers>> devices)
    : common_(common), devices_(devices), numbers_(common.plan, common.graph, common.request.source) {}

DeviceNumbers& NodeNumbers::of_head(u32 micro_batch) const {
  const u32 head = static_cast<u32>(common_.graph.blocks.size()) - 1;
  return *devices_[common_.plan.device_of(head, micro_batch)];
}

// The first micro-batch of each replica brings the tokens of all of the replica's.
void NodeNumbers::pack(u64 step, std::span<std::byte> packed) {
  const Plan& plan = common_.plan;
  for (u32 m = 0; m < plan.micro_batches; ++m) {
    if (plan.node_of(m) != plan.node) continue;
    const DeviceNumbers& device = of_head(m);
    *numbers_.begin_sums(step, m) = device.sums(step, m);
    const RoutingPlace routing = numbers_.begin_routing(step, m);
    if (routing.losses == nullptr) continue;
    *routing.losses = device.router_losses(step)[m];
    if (m < plan.replicas() * plan.nodes) std::ranges::copy(device.expert_tokens(step), routing.tokens);
  }
  numbers_.pack(step, common_.vote.load(std::memory_order_relaxed), packed);
}

void NodeNumbers::finish(const Issue& norm) {
  numbers_.finish(norm, common_.memory);
  for (const auto& device : devices_) device->put_result(norm.step, numbers_.result(norm.step));
}

}  // namespace tidepool
