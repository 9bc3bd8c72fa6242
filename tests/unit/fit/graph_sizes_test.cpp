// Groups of experts and pieces of sequences that the config leaves open, under small budgets.
#include "fit/graph_sizes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "fit/alternatives.h"
#include "fit/job.h"
#include "fit/plan_run.h"
#include "planner/advice/change_text.h"
#include "tests/support/train_fixture.h"

namespace tidepool::graph_sizes_test {

using test::TrainDir;
using ::testing::Contains;
using ::testing::HasSubstr;

// A sequence of 16 tiles of which a quarter of the device would take many at once.
Config long_config(const TrainDir& dir, Bytes device) {
  Config c = test::small_config(dir);
  c.model = default_model(Family::llama);
  c.model.vocab_size = 256, c.model.positions = 2048, c.model.width = 64, c.model.layers = 2;
  c.model.attention.heads = 4, c.model.attention.kv_heads_given = 1;
  c.model.mlp.inner_given = 512;
  c.train.per_device_train_batch_size = 1, c.train.gradient_accumulation_steps = 1;
  c.train.sequence_length = 2048, c.train.tile_tokens = 128;
  c.memory.budgets = {device, Bytes{64 * mib}, Bytes{64 * mib}};
  return c;
}

Config with_device(Config c, Bytes device) {
  c.memory.budgets.device = device;
  return c;
}

bool fits(const Config& c) {
  const Job job = make_job(c).value();
  return check_fits(job.graph, job.options).has_value();
}

// The smallest budget that fits, to 16 KiB.
Bytes least_device(const Config& c) {
  u64 fail = 0, fit = 1024;
  while (fail + 1 < fit) {
    const u64 middle = (fail + fit) / 2;
    (fits(with_device(c, Bytes{middle * 16 * kib})) ? fit : fail) = middle;
  }
  return Bytes{fit * 16 * kib};
}

TEST(GraphSizes, PiecesAreSmallerWhereLargerOnesDoNotFit) {
  const TrainDir dir;
  const Config open = long_config(dir, Bytes{16 * mib});
  EXPECT_EQ(make_job(open)->graph.batch.pieces(), 1u);
  Config one = open;
  one.memory.piece_tokens = 128;
  const Bytes least = least_device(one);
  EXPECT_EQ(least_device(open), least);
  EXPECT_GT(make_job(with_device(open, least))->graph.batch.pieces(), 8u);
}

// With a larger budget larger pieces are tried first, which must not refuse what smaller ones fit.
TEST(GraphSizes, WhatIsAdvisedIsTaken) {
  const TrainDir dir;
  const Config open = long_config(dir, Bytes{16 * mib});
  const Bytes least = least_device(open);
  for (const u64 part : {2, 4, 8}) {
    const Config small = with_device(open, least / part);
    const auto refused = plan_run(make_job(small).value(), PlanFor::machine_of_file);
    ASSERT_FALSE(refused);
    ASSERT_FALSE(refused.error().changes.empty()) << refused.error().message;
    const Budgets larger = raised_by(refused.error().changes.front(), small.memory.budgets);
    EXPECT_TRUE(fits(with_device(open, larger.device))) << refused.error().message;
  }
}

TEST(GraphSizes, NamedPiecesThatAreTooLargeAreToldToBeLeftOpen) {
  const TrainDir dir;
  Config named = long_config(dir, Bytes{16 * mib});
  named.memory.budgets.device = least_device(named);
  named.memory.piece_tokens = 2048;
  const auto refused = plan_run(make_job(named).value(), PlanFor::machine_of_file);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("memory.piece_tokens=auto"));
}

TEST(GraphSizes, GroupsOfExpertsAreSmallerWhereLargerOnesDoNotFit) {
  const TrainDir dir;
  Config open = long_config(dir, Bytes{16 * mib});
  open.model = default_model(Family::mixtral);
  open.model.vocab_size = 256, open.model.positions = 2048, open.model.width = 64, open.model.layers = 2;
  open.model.attention.heads = 4, open.model.attention.kv_heads_given = 1;
  open.model.mlp.inner_given = 64;
  open.model.experts.count = 8;
  open.train.sequence_length = 64;
  Config one = open;
  one.memory.experts_per_group = 1;
  EXPECT_GT(make_job(open)->graph.experts_per_group, 1u);
  EXPECT_EQ(least_device(open), least_device(one));
}

}  // namespace tidepool::graph_sizes_test
