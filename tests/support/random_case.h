// Random models, budgets and options; the same seed gives the same case.
#pragma once

#include <random>

#include "planner/planner.h"
#include "tests/support/cases.h"
#include "tests/support/support_graph.h"

namespace tidepool::test {

struct RandomCase {
  GraphShape shape;
  PlanOptions options;
};

// With several devices, each has this budget and as many micro-batches as one device would have.
inline RandomCase random_case(u32 seed, u32 devices = 1) {
  std::mt19937 rng(seed);
  const auto pick = [&](auto... values) {
    const std::common_type_t<decltype(values)...> list[] = {values...};
    return list[rng() % (sizeof list / sizeof list[0])];
  };
  RandomCase c;
  c.shape = {.layers = pick(1u, 2u, 5u),
             .layer_elements = u64{2048} * pick(1u, 3u, 8u, 20u),
             .embedding_elements = u64{2048} * pick(1u, 4u, 40u),
             .boundary_bytes = u64{4096} * pick(1u, 5u, 16u),
             .kept_bytes = u64{4096} * pick(0u, 8u, 40u),
             .workspace_bytes = u64{4096} * pick(1u, 16u),
             .precision = pick(Precision::fp32, Precision::bf16)};
  if (seed % 5 == 4) c.shape.precision = Precision::fp16;
  const auto budget = [&] { return Bytes{u64{16 * 1024} << (rng() % 11)}; };
  c.options = {
      .budgets = {budget(), budget(), Bytes{u64{1} << 40}},
      .micro_batches = devices * pick(1u, 2u, 4u, 6u),
      .devices = devices,
      .clipping = rng() % 2 == 0,
      .home = pick(HomePolicy::automatic, HomePolicy::device, HomePolicy::host, HomePolicy::disk,
                   HomePolicy::mixed),
      .recompute = pick(RecomputePolicy::automatic, RecomputePolicy::keep, RecomputePolicy::recompute),
      .chunk_bytes = Bytes{u64{pick(0u, 8192u, 24'000u, 65'536u)}},
      .lookahead = pick(0u, 1u, 7u)};
  c.shape.untied = rng() % 3 == 0;
  c.shape.packed = rng() % 4 == 0;
  if (rng() % 3 == 0) {
    c.shape.expert_groups = pick(1u, 2u, 5u);
    c.shape.dense_layers = pick(0u, 0u, 1u);
    c.shape.group_elements = u64{2048} * pick(1u, 6u, 30u);
  }
  if (rng() % 3 == 0)
    c.shape.optim = pick(Optim::muon, Optim::muon_bf16, Optim::adamw_8bit, Optim::adafactor);
  return c;
}

}  // namespace tidepool::test
