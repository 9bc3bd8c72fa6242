// A steady step takes no heap memory, in any thread, and no tier memory: everything is allocated before the
// first step. All threads are counted: those of the engine, lanes, disk and core pool.
#include <gtest/gtest.h>

#include <optional>

#include "engine/engine.h"
#include "fit/job.h"
#include "optimizers/optimizer.h"
#include "run/weights/init_weights.h"
#include "session/session.h"
#include "tests/support/asked_plan.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/cpu_rig.h"
#include "tests/support/train_fixture.h"

namespace tidepool::steady_allocation_test {

using test::CountAllocations;
using enum SegmentKind;

constexpr u64 warm_steps = 3, steps = 7;  // counted: from the norm of step 3 to that of step 7

struct Setting {
  const char* name;
  Precision precision = Precision::fp32;
  bool clipping = true;
  HomePolicy home = HomePolicy::disk;
  IoBackend io = IoBackend::io_uring;
  u32 micro_batches = 1, sweeps = 1;
  Optim optim = Optim::adamw_torch;
};

class Steps final : public NextSegment {
 public:
  explicit Steps(bool clipping) : clipping_(clipping) {}
  std::optional<SegmentRun> next() override {
    if (step_ == steps + 1) {
      if (!clipping_) return std::nullopt;
      clipping_ = false;
      return SegmentRun{drain, step_ + 1};
    }
    ++step_;
    return SegmentRun{step_ == 1 ? forward_backward : body, step_};
  }

 private:
  bool clipping_;
  u64 step_ = 0;
};

class Counter final : public EngineObserver {
 public:
  explicit Counter(const ArenaLedger& ledger) : ledger_(ledger) {}
  void completed(const Issue& issue, const Completion&) override {
    if (issue.get().kind != OpKind::norm) return;
    if (issue.step == warm_steps) {
      mark_ = ledger_.taken_ever();
      allocations_.emplace();
    }
    if (issue.step == steps) {
      allocations_->stop();
      tier_memory_ = ledger_.taken_since(mark_);
    }
  }
  const CountAllocations& allocations() const { return *allocations_; }
  Bytes tier_memory() const { return tier_memory_; }

 private:
  const ArenaLedger& ledger_;
  std::optional<CountAllocations> allocations_;
  Bytes mark_{}, tier_memory_{};
};

Config config_of(const Setting& setting, const test::TrainDir& dir) {
  Config c = test::small_config(dir);
  c.train.precision = setting.precision;
  c.train.optim = setting.optim;
  if (optimizer(setting.optim).unit == UnitKind::tensor)  // units are padded
    c.memory.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
  c.train.max_grad_norm = setting.clipping ? 1.0 : 0.0;
  c.train.gradient_accumulation_steps = setting.micro_batches;
  c.memory.home = setting.home;
  c.memory.io = setting.io;
  c.memory.sweeps = setting.sweeps;
  c.memory.chunk_size = Bytes{40 * kib};
  c.memory.swap_dir = dir / "swap";
  c.model.attention.dropout = c.model.residual_dropout = 0.1;
  return c;
}

class SteadyStep : public ::testing::TestWithParam<Setting> {};

TEST_P(SteadyStep, TakesNoMemory) {
  const test::TrainDir dir;
  const Config config = config_of(GetParam(), dir);
  SCOPED_TRACE(test::how_to_repeat(config));
  const Job job = make_job(config).value();
  test::HashedData source(config.model.vocab_size);
  source.step_settings.max_grad_norm = config.train.max_grad_norm;
  source.step_settings.target_tokens = job.graph.batch.rows() * GetParam().micro_batches;
  const auto session = Session::create(job, make_plan(job.graph, job.options).value(), source);
  if (!session && GetParam().io == IoBackend::io_uring)
    GTEST_SKIP() << "SKIPPED: " << session.error().message;
  ASSERT_TRUE(session) << session.error().message;
  std::vector<std::byte> buffer(256 * kib);
  ASSERT_TRUE(
      init_weights(job.graph, 1, false, (*session)->state(), buffer, (*session)->pool(), [](double) {}));

  const auto engine = Engine::create((*session)->plan(), (*session)->executor(), {});
  Steps next(GetParam().clipping);
  Counter counter((*session)->ledger());
  const auto ran = engine->run(next, counter);
  ASSERT_TRUE(ran) << ran.error().message;
  EXPECT_EQ(counter.allocations().count(), 0u) << counter.allocations().who();
  EXPECT_EQ(counter.tier_memory(), Bytes{0});
}

INSTANTIATE_TEST_SUITE_P(
    Settings, SteadyStep,
    ::testing::Values(
        Setting{"resident", Precision::fp32, true, HomePolicy::device}, Setting{"disk_io_uring"},
        Setting{"disk_threads", Precision::fp32, true, HomePolicy::disk, IoBackend::threads},
        Setting{"disk_bf16_unclipped", Precision::bf16, false},
        Setting{"mixed_bf16_two_sweeps", Precision::bf16, true, HomePolicy::mixed, IoBackend::io_uring, 4, 2},
        Setting{"disk_8bit", Precision::bf16, true, HomePolicy::disk, IoBackend::io_uring, 1, 1,
                Optim::adamw_8bit},
        Setting{"disk_muon", Precision::bf16, true, HomePolicy::disk, IoBackend::io_uring, 1, 1, Optim::muon},
        Setting{"disk_adafactor", Precision::bf16, true, HomePolicy::disk, IoBackend::io_uring, 1, 1,
                Optim::adafactor}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace tidepool::steady_allocation_test
