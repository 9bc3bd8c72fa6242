#include "executor/cuda/routing_sum.h"

#include <algorithm>
#include <functional>

namespace tidepool {

RoutingSum::RoutingSum(const Plan& plan, const StepSource& source, u32 head,
                       std::span<const std::unique_ptr<DeviceNumbers>> numbers)
    : plan_(plan), source_(source), head_(head), numbers_(numbers) {
  tokens_.fill(std::vector<i64>(numbers.front()->experts()));
}

// Means are taken as on the CPU: in the order of micro-batches, each of which one device has.
RoutingResult RoutingSum::sum(u64 step) {
  std::vector<i64>& tokens = tokens_[step % steps_kept];
  if (tokens.empty()) return {};
  RoutingResult out{.tokens = tokens};
  const u32 filled = filled_micro_batches(source_, step, plan_.micro_batches);
  for (u32 m = 0; m < plan_.micro_batches; ++m) {  // empty ones have zeros
    const RouterLosses& losses = numbers_[plan_.device_of(head_, m)]->router_losses(step)[m];
    out.losses.balance += losses.balance / filled;
    out.losses.z += losses.z / filled;
    out.losses.entropy += losses.entropy / filled;
  }
  std::ranges::fill(tokens, 0);
  for (u32 m = 0; m < plan_.replicas(); ++m) {
    const std::span<const i64> part = numbers_[plan_.device_of(head_, m)]->expert_tokens(step);
    std::ranges::transform(tokens, part, tokens.begin(), std::plus<>());
  }
  return out;
}

}  // namespace tidepool
