#include "executor/cuda/routing_sum.h"

#include <algorithm>
#include <functional>

namespace tidepool {

RoutingSum::RoutingSum(const Plan& plan, const StepSource& source, u32 head,
                       std::span<const std::unique_ptr<DeviceNumbers>> numbers)
    : plan_(plan), source_(source), head_(head), numbers_(numbers) {
  tokens_.fill(std::vector<i64>(numbers.front()->experts()));
}

RoutingResult RoutingSum::sum(u64 step) {
  std::vector<i64>& tokens = tokens_[step % steps_kept];
  if (tokens.empty()) return {};
  const RoutingResult out{
      .losses = mean_router_losses(source_, step, plan_.micro_batches,
                                   [&](u32 m) -> const RouterLosses& {
                                     return numbers_[plan_.device_of(head_, m)]->router_losses(step)[m];
                                   }),
      .tokens = tokens};
  std::ranges::fill(tokens, 0);
  for (u32 m = 0; m < plan_.replicas(); ++m) {
    const std::span<const i64> part = numbers_[plan_.device_of(head_, m)]->expert_tokens(step);
    std::ranges::transform(tokens, part, tokens.begin(), std::plus<>());
  }
  return out;
}

}  // namespace tidepool
