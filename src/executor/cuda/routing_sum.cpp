#include "executor/cuda/routing_sum.h"

#include <algorithm>
#include <functional>

namespace tidepool {

RoutingSum::RoutingSum(const Plan& plan, std::span<const std::unique_ptr<DeviceNumbers>> numbers)
    : micro_batches_(plan.micro_batches), numbers_(numbers) {
  tokens_.fill(std::vector<i64>(numbers.front()->experts()));
}

// Means are taken as on the CPU: in the order of micro-batches, each of which one device has.
RoutingResult RoutingSum::sum(u64 step) {
  std::vector<i64>& tokens = tokens_[step % steps_kept];
  if (tokens.empty()) return {};
  RoutingResult out{.tokens = tokens};
  for (u32 m = 0; m < micro_batches_; ++m) {
    const RouterLosses& losses = numbers_[m % numbers_.size()]->router_losses(step)[m];
    out.losses.balance += losses.balance / micro_batches_;
    out.losses.z += losses.z / micro_batches_;
    out.losses.entropy += losses.entropy / micro_batches_;
  }
  std::ranges::fill(tokens, 0);
  for (const auto& of_device : numbers_) {
    const std::span<const i64> part = of_device->expert_tokens(step);
    std::ranges::transform(tokens, part, tokens.begin(), std::plus<>());
  }
  return out;
}

}  // namespace tidepool
