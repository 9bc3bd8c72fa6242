#include "run/outputs/routing_meter.h"

#include <algorithm>

namespace tidepool {
namespace {

// Enough to be more than chance, and 1 MB for 58 layers of 256 experts.
constexpr u64 last_steps_most = 8;

RouterMetrics metrics_of(const RoutingResult& routing, u32 experts) {
  RouterMetrics m{
      .balance = routing.losses.balance, .z = routing.losses.z, .entropy = routing.losses.entropy};
  const std::vector<double> uneven = layer_imbalance(routing.tokens, experts);
  for (const double layer : uneven) {
    m.imbalance += layer / static_cast<double>(uneven.size());
    m.imbalance_most = std::max(m.imbalance_most, layer);
  }
  return m;
}

}  // namespace

RoutingMeter::RoutingMeter(const ModelGraph& graph, u64 steps_expected) {
  if (graph.config.experts.count == 0) return;
  use_.experts = graph.config.experts.count, use_.chosen = graph.config.experts.chosen;
  for (const Block& block : graph.blocks)
    if (block.kind == BlockKind::attention) use_.layers.push_back(block.layer);
  use_.tokens.resize(use_.layers.size() * use_.experts);
  use_.last_tokens.resize(use_.tokens.size());
  last_.assign(last_steps_most, std::vector<i64>(use_.tokens.size()));
  use_.each_step.reserve(steps_expected);
}

void RoutingMeter::add(const RoutingResult& routing, u64 step_tokens, Metrics& metrics) {
  if (routing.tokens.empty() || routing.tokens.size() != use_.tokens.size()) return;
  const u64 choices = step_tokens * use_.chosen;  // of a layer
  std::vector<i64>& last = last_[use_.steps++ % last_steps_most];
  std::ranges::copy(routing.tokens, last.begin());
  for (u64 at = 0; at < last.size(); at += use_.experts) {
    u64 sum = 0;
    for (u64 i = at; i < at + use_.experts; ++i) {
      const u64 tokens = static_cast<u64>(last[i]);
      use_.tokens[i] += tokens, sum += tokens;
    }
    use_.dropped += choices - std::min(choices, sum);
  }
  use_.each_step.push_back(metrics_of(routing, use_.experts));
  for (const RouterMetric& of : router_metrics) metrics.set(of.metric, use_.each_step.back().*of.value);
}

std::optional<ExpertTokens> RoutingMeter::due() {
  if (use_.steps < next_due_ || use_.layers.empty()) return std::nullopt;
  next_due_ = 2 * use_.steps;
  return ExpertTokens{.steps = use_.steps, .experts = use_.experts, .tokens = use_.tokens};
}

void RoutingMeter::fill(RunReport& report) const {
  if (use_.steps == 0) return;
  report.experts = use_;
  report.experts->last_steps = std::min(use_.steps, last_steps_most);
  for (const std::vector<i64>& step : last_)  // steps that did not happen are zero
    for (u64 i = 0; i < step.size(); ++i) report.experts->last_tokens[i] += static_cast<u64>(step[i]);
}

}  // namespace tidepool
