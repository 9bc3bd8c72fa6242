// Placement settings, which must not change a number: where state lies, how it is cut and moved, how much
// room it has.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <string_view>
#include <vector>

#include "fit/job.h"
#include "planner/planner.h"
#include "tests/support/asked_plan.h"
#include "tests/support/cases.h"
#include "tests/support/pairwise.h"
#include "tests/support/train_fixture.h"

namespace tidepool::test {

enum PlacementFactor : u32 {
  home,
  chunk,
  sweeps,
  recompute,
  threads,
  io,
  depth,
  budget,
  commits,
  experts,
  pieces
};

inline constexpr HomePolicy homes[] = {HomePolicy::device, HomePolicy::host, HomePolicy::disk,
                                       HomePolicy::mixed};
// For 64 x 192 and 64 x 256 matrices in windows of 200 KiB: 8 KiB cuts through matrices, 40 KiB also through
// their rows, 1 MiB holds a whole window. Windows with experts are several times as large, and take as many
// times larger chunks: an odd number, so that borders fall everywhere in experts, which begin at multiples of
// 64 Ki elements.
inline constexpr Bytes chunk_sizes[] = {Bytes{8 * kib}, Bytes{40 * kib}, Bytes{mib}};
inline constexpr u64 chunk_factor_with_experts = 5;
inline constexpr RecomputePolicy recomputes[] = {RecomputePolicy::keep, RecomputePolicy::recompute};
inline constexpr IoBackend backends[] = {IoBackend::io_uring, IoBackend::threads};
inline constexpr u32 depths[] = {1, 32};
inline constexpr u32 group_sizes[] = {1, 3, 8};        // models with experts: of one, of some, of all
inline constexpr u32 versions[] = {1, 2, 3, 2};        // of the state on disk; the last two speculate
inline constexpr u32 piece_tiles[] = {0, 1, 2, 3, 7};  // sequences of seven tiles: all of them, one, ...
enum Room : u32 { plenty, tight };

// Two sweeps need two micro-batches. Groups of experts need experts.
inline std::vector<u32> placement_levels(u32 accumulation, bool with_experts = false, bool tiled = false) {
  return {std::size(homes),
          std::size(chunk_sizes),
          accumulation > 1 ? 2u : 1u,
          std::size(recomputes),
          3,
          std::size(backends),
          std::size(depths),
          2,
          std::size(versions),
          with_experts ? u32{std::size(group_sizes)} : 1u,
          tiled ? u32{std::size(piece_tiles)} : 1u};
}

// RETURNS: settings that together hold every value of each factor; with all cases, every pair of values.
// Tests begin at different rows, so that together they run most of them.
inline std::vector<Row> placement_rows(u32 accumulation, bool with_experts = false, bool tiled = false) {
  std::vector<Row> rows = covering_array(placement_levels(accumulation, with_experts, tiled));
  if (wants_all_cases()) return rows;
  const std::string_view name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  return rows_with_each_value(rows, std::accumulate(name.begin(), name.end(), u64{0}));
}

inline bool fits(const ModelGraph& graph, const Config& config) {
  PlanOptions options = plan_options(config);
  options.advise = false;
  return check_fits(graph, options).has_value();
}

// Lowers one budget to the smallest value that fits, with the other budgets unchanged.
inline void tighten(const ModelGraph& graph, Config& config, Bytes& of_config) {
  u64 too_little = 0, enough = of_config.value;
  while (enough - too_little > 16 * kib) {
    of_config = Bytes{(too_little + enough) / 2};
    (fits(graph, config) ? enough : too_little) = of_config.value;
  }
  of_config = Bytes{enough};
}

inline Config placed(const Row& row, Config c) {
  c.memory.home = homes[row[home]];
  c.memory.chunk_size =
      chunk_sizes[row[chunk]] * (c.model.experts.count != 0 ? chunk_factor_with_experts : u64{1});
  c.memory.sweeps = row[sweeps] + 1;
  c.train.recompute = recomputes[row[recompute]];
  c.machine.threads = row[threads] + 1;
  c.memory.io = backends[row[io]];
  c.memory.queue_depth = depths[row[depth]];
  // One version of the state on disk, or two or three, committed after every step or every second; then
  // updates may wait for the norm or speculate on it.
  c.memory.versions = versions[row[commits]];
  c.output.persist_steps = row[commits] == 2 ? 2 : 1;
  const bool may_speculate = c.train.precision != Precision::fp16 || c.machine.gpus().empty();
  c.train.speculate = row[commits] >= 2 && may_speculate ? SpeculatePolicy::on : SpeculatePolicy::off;
  c.memory.experts_per_group = group_sizes[row[experts]];
  if (c.train.tile_tokens != 0)
    c.memory.piece_tokens = piece_tiles[row[pieces]] == 0
                                ? c.train.sequence_length * c.train.per_device_train_batch_size
                                : piece_tiles[row[pieces]] * c.train.tile_tokens;
  if (row[budget] == tight) {
    const Job job = make_job(c).value();
    tighten(job.graph, c, c.memory.budgets.device);
    tighten(job.graph, c, c.memory.budgets.host);
    tighten(job.graph, c, c.memory.budgets.disk);
  }
  return c;
}

inline void check_bytes(const RunReport& report) {
  for (u32 l = 0; l < link_count; ++l)
    EXPECT_EQ(report.links[l].measured, report.links[l].planned) << name(static_cast<LinkKind>(l));
  for (u32 t = 0; t < tier_count; ++t) {
    EXPECT_LE(report.tiers[t].measured_peak, report.tiers[t].planned_peak) << name(static_cast<Tier>(t));
    EXPECT_LE(report.tiers[t].planned_peak, report.tiers[t].budget) << name(static_cast<Tier>(t));
  }
}

}  // namespace tidepool::test
