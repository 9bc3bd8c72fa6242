// Offload never changes numbers: whole runs of the trainer under settings that together cover every pair
// of placements, against one another to the bit.
//
// Within a group (precision, accumulation, clipping) everything else may vary: homes, chunk size, sweeps,
// recompute, threads, disk backend, queue depth, budgets. Two sweeps need two micro-batches, so a group
// with accumulation 1 has one sweep only.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "planner/planner.h"
#include "tests/support/pairwise.h"
#include "tests/support/train_fixture.h"
#include "trainer/session.h"

namespace tidepool {
namespace {

using testing::all_pairs;
using testing::covering_array;
using testing::how_to_repeat;
using testing::Numbers;
using testing::numbers_of;
using testing::Row;
using testing::TrainDir;

struct Group {
  Precision precision{};
  u32 accumulation = 1;
  bool clipping = true;
  u32 devices = 1;
};

std::string group_name(const ::testing::TestParamInfo<Group>& info) {
  return fmt::format("{}_accumulation{}_{}{}", info.param.precision == Precision::fp32 ? "fp32" : "bf16",
                     info.param.accumulation, info.param.clipping ? "clipped" : "unclipped",
                     info.param.devices == 1 ? "" : fmt::format("_devices{}", info.param.devices));
}

enum Factor : u32 { home, chunk, sweeps, recompute, threads, io, depth, budget };

constexpr HomePolicy homes[] = {HomePolicy::device, HomePolicy::host, HomePolicy::disk, HomePolicy::mixed};
// Of 64 x 192 and 64 x 256 matrices in windows of 200 KiB: 8 KiB cuts through matrices, 40 KiB through
// their rows too, 1 MiB is a window whole.
constexpr Bytes chunk_sizes[] = {Bytes{8 * kib}, Bytes{40 * kib}, Bytes{mib}};
constexpr RecomputePolicy recomputes[] = {RecomputePolicy::keep, RecomputePolicy::recompute};
constexpr IoBackend backends[] = {IoBackend::io_uring, IoBackend::threads};
constexpr u32 depths[] = {1, 32};
enum Room : u32 { roomy, tight };

std::vector<u32> levels(const Group& group) {
  return {std::size(homes), std::size(chunk_sizes), group.accumulation > 1 ? 2u : 1u, std::size(recomputes), 3,
          std::size(backends), std::size(depths), 2};
}

Config group_config(const Group& group, const TrainDir& dir) {
  Config c = testing::small_config(dir);
  c.train.precision = group.precision;
  c.train.gradient_accumulation_steps = group.accumulation;
  c.machine.executor = fmt::format("cpu:{}", group.devices);
  c.train.max_grad_norm = group.clipping ? 0.5 : 0.0;
  // Dropout draws from counters: its bits must not depend on recompute, sweeps or threads either.
  const double dropout = group.accumulation > 1 || group.precision == Precision::bf16 ? 0.1 : 0.0;
  c.model.embd_pdrop = c.model.attn_pdrop = c.model.resid_pdrop = dropout;
  return c;
}

bool fits(const ModelGraph& graph, const Config& config) { return make_plan(graph, plan_options(config)).has_value(); }

// The least of one budget that fits, the others as they are.
void tighten(const ModelGraph& graph, Config& config, Bytes& of_config) {
  u64 too_little = 0, enough = of_config.value;
  while (enough - too_little > 16 * kib) {
    of_config = Bytes{(too_little + enough) / 2};
    (fits(graph, config) ? enough : too_little) = of_config.value;
  }
  of_config = Bytes{enough};
}

Config apply(const Row& row, Config c) {
  c.memory.home = homes[row[home]];
  c.memory.chunk_size = chunk_sizes[row[chunk]];
  c.memory.sweeps = row[sweeps] + 1;
  c.train.recompute = recomputes[row[recompute]];
  c.machine.threads = row[threads] + 1;
  c.memory.io = backends[row[io]];
  c.memory.queue_depth = depths[row[depth]];
  if (row[budget] == tight) {
    const ModelGraph graph = make_graph(c).value();
    tighten(graph, c, c.memory.budgets.device);
    tighten(graph, c, c.memory.budgets.host);
    tighten(graph, c, c.memory.budgets.disk);
  }
  return c;
}

void check_bytes(const RunReport& report) {
  for (u32 l = 0; l < link_count; ++l)
    EXPECT_EQ(report.links[l].measured, report.links[l].planned) << name(static_cast<LinkKind>(l));
  for (u32 t = 0; t < tier_count; ++t) {
    EXPECT_LE(report.tiers[t].measured_peak, report.tiers[t].planned_peak) << name(static_cast<Tier>(t));
    EXPECT_LE(report.tiers[t].planned_peak, report.tiers[t].budget) << name(static_cast<Tier>(t));
  }
}

// Where the kernel refuses io_uring (some containers do) both levels are the thread pool.
bool io_uring_works(const TrainDir& dir) {
  Config c = testing::small_config(dir, "probe");
  c.train.max_steps = 1;
  c.memory.home = HomePolicy::disk;
  c.memory.io = IoBackend::io_uring;
  return testing::run(c).has_value();
}

class Placement : public ::testing::TestWithParam<Group> {};

TEST_P(Placement, ChangesNoBit) {
  const TrainDir dir;
  const bool uring = io_uring_works(dir);
  if (!uring) std::printf("NOTE: the kernel refuses io_uring here; its settings run on the thread pool\n");
  const std::vector<Row> rows = covering_array(levels(GetParam()));
  std::set<testing::Pair> missing = all_pairs(levels(GetParam()));
  std::optional<Numbers> first;
  for (const Row& row : rows) {
    Config config = apply(row, group_config(GetParam(), dir));
    if (!uring) config.memory.io = IoBackend::threads;
    SCOPED_TRACE(how_to_repeat(config));
    const auto report = testing::run(config);
    ASSERT_TRUE(report) << report.error().message;
    const Numbers numbers = numbers_of(*report);
    if (!first) first = numbers;
    EXPECT_EQ(numbers, *first);
    check_bytes(*report);
    for (const testing::Pair& pair : testing::pairs_of(row)) missing.erase(pair);
    std::filesystem::remove_all(config.output.dir);
  }
  EXPECT_GE(rows.size(), 6u);
  EXPECT_TRUE(missing.empty()) << missing.size() << " pairs of settings were not run";
  ASSERT_EQ(first->losses.size(), 4u);
  EXPECT_LT(first->losses.back(), first->losses.front());  // equal numbers, and numbers of something learning
}

INSTANTIATE_TEST_SUITE_P(Groups, Placement,
                         ::testing::Values(Group{Precision::fp32, 1, true}, Group{Precision::fp32, 1, false},
                                           Group{Precision::fp32, 4, true}, Group{Precision::fp32, 4, false},
                                           Group{Precision::bf16, 1, true}, Group{Precision::bf16, 1, false},
                                           Group{Precision::bf16, 4, true}, Group{Precision::bf16, 4, false},
                                           Group{Precision::fp32, 2, true, 2}, Group{Precision::bf16, 1, true, 2},
                                           Group{Precision::bf16, 2, false, 2}),
                         group_name);

TEST(Pairwise, CoversEveryPair) {
  const std::vector<u32> levels = {4, 3, 2, 2, 3, 2, 2, 2};
  std::set<testing::Pair> missing = all_pairs(levels);
  const auto rows = covering_array(levels);
  for (const Row& row : rows)
    for (const testing::Pair& pair : testing::pairs_of(row)) missing.erase(pair);
  EXPECT_TRUE(missing.empty());
  EXPECT_LE(rows.size(), 20u);  // 12 is the least: 4 homes x 3 chunk sizes
}

}  // namespace
}  // namespace tidepool
