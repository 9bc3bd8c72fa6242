// ExpertUse says how a run's tokens were routed to experts: tokens per expert, and the routers' losses over
// the steps.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"

namespace tidepool {

// Routing of one step. Losses are means over the micro-batches, before their factors.
struct RouterMetrics {
  double balance = 0;         // load-balancing loss
  double z = 0;               // mean of logsumexp(logits)^2
  double entropy = 0;         // of a router's probabilities, in nats; mean over tokens and layers
  double imbalance = 0;       // tokens of a layer's busiest expert over the layer's mean; mean of the layers
  double imbalance_most = 0;  // the same of the most uneven layer
  bool operator==(const RouterMetrics&) const = default;
};

// Tokens per expert over all steps of a process so far.
struct ExpertTokens {
  u64 steps = 0;
  u32 experts = 0;          // of a layer
  std::vector<u64> tokens;  // [layers, experts]
  bool operator==(const ExpertTokens&) const = default;
};

struct ExpertUse {
  u32 experts = 0;          // E, of a layer
  u32 chosen = 0;           // k
  std::vector<u32> layers;  // numbers of the layers with experts
  u64 steps = 0;            // steps behind `tokens`
  std::vector<u64> tokens;  // [layers, E] tokens that chose the expert
  u64 last_steps = 0;       // steps behind `last_tokens`
  std::vector<u64> last_tokens;
  u64 dropped = 0;                       // choices of an expert that no expert computed
  std::vector<RouterMetrics> each_step;  // of this process
  bool operator==(const ExpertUse&) const = default;
};

// Tokens of the busiest expert over the mean, by layer; 0 for a layer without tokens.
// REQUIRES: `tokens` is [layers, experts].
template <class Count>
std::vector<double> layer_imbalance(std::span<const Count> tokens, u32 experts) {
  std::vector<double> out;
  for (u64 at = 0; at + experts <= tokens.size(); at += experts) {
    double sum = 0, most = 0;
    for (const Count count : tokens.subspan(at, experts)) {
      sum += static_cast<double>(count);
      most = most < static_cast<double>(count) ? static_cast<double>(count) : most;
    }
    out.push_back(sum > 0 ? most * experts / sum : 0);
  }
  return out;
}

// RETURNS: "no token dropped, ..." for the report at the end; empty if no step was recorded.
std::string expert_use_text(const ExpertUse&);

}  // namespace tidepool
