// Whole training runs on several GPUs: they give the bits of one GPU that accumulates as many micro-batches,
// for any placement.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "engine/engine.h"
#include "executor/cuda/cuda_devices.h"
#include "fit/job.h"
#include "net/local_network.h"
#include "session/session.h"
#include "tests/support/asked_plan.h"
#include "tests/support/cpu_rig.h"
#include "tests/support/gpu_config.h"
#include "tests/support/gpu_precision.h"
#include "tests/support/placement.h"
#include "tests/support/segments.h"
#include "tests/support/small_training.h"

namespace tidepool::several_gpus_test {

using test::change_timing;
using test::first_gpus;
using test::gpu_config;
using test::how_to_repeat;
using test::Numbers;
using test::numbers_of;
using test::train_numbers;
using test::TrainDir;

class SeveralGpus : public ::testing::Test {
 protected:
  static constexpr u32 most = 3;

  SeveralGpus() { register_cuda(); }
  void SetUp() override {
    change_timing(0, most);
    gpus_ = std::min(most, test::gpus_here());
    if (gpus_ < 2) GTEST_SKIP() << "two GPUs are needed";
  }
  static void check_comm(const RunReport& report) {
    ASSERT_TRUE(report.comm);
    EXPECT_EQ(report.comm->measured, report.comm->planned);
    EXPECT_GT(report.comm->measured.value, 0u);
  }

  // RETURNS: a 16-bit precision, for tests where either will do.
  static Precision half() {
    return test::gpu_multiplies(Precision::bf16) ? Precision::bf16 : Precision::fp16;
  }

  u32 gpus_ = 0;
  const TrainDir dir_;
};

struct Setting {
  Precision precision{};
  bool clipping = true;
  double dropout = 0;
  HomePolicy home{};
  u32 width = 64;  // from 128 on, one device owns whole granules of the norm in a layer
};

std::string setting_name(const ::testing::TestParamInfo<Setting>& info) {
  constexpr const char* homes[] = {"auto", "device", "host", "disk", "mixed"};
  return fmt::format("{}_{}_{}", info.param.precision == Precision::fp32 ? "fp32" : "bf16",
                     info.param.clipping ? "clipped" : "unclipped", homes[static_cast<u32>(info.param.home)]);
}

class SeveralGpusSettings : public SeveralGpus, public ::testing::WithParamInterface<Setting> {
 protected:
  void SetUp() override {
    SeveralGpus::SetUp();
    if (!test::gpu_multiplies(GetParam().precision)) GTEST_SKIP() << "these GPUs do not multiply bf16";
  }
  Config config(u32 devices, u32 accumulation) const {
    const Setting& s = GetParam();
    Config c = gpu_config(dir_, s.precision, fmt::format("run-{}-{}", devices, accumulation));
    c.model.width = s.width;
    c.train.max_grad_norm = s.clipping ? 0.5 : 0.0;
    c.model.embedding_dropout = c.model.attention.dropout = c.model.residual_dropout = s.dropout;
    c.memory.home = s.home;
    c.memory.chunk_size = Bytes{40 * kib};
    c.machine.executor = first_gpus(devices);
    c.train.gradient_accumulation_steps = accumulation;
    return c;
  }
};

TEST_P(SeveralGpusSettings, WithOneMicroBatchEachAreOneThatAccumulates) {
  for (u32 count = 2; count <= gpus_; ++count) {
    change_timing(count, most);
    const Numbers expected = train_numbers(config(1, count));
    change_timing(count + GetParam().width, most);
    const Config several = config(count, 1);
    SCOPED_TRACE(how_to_repeat(several));
    const auto report = test::run(several);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(numbers_of(*report), expected);
    test::check_bytes(*report);
    check_comm(*report);
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, SeveralGpusSettings,
                         ::testing::Values(Setting{Precision::fp32, true, 0.0, HomePolicy::automatic, 128},
                                           Setting{Precision::fp32, true, 0.1, HomePolicy::host},
                                           Setting{Precision::fp32, false, 0.0, HomePolicy::device},
                                           Setting{Precision::bf16, true, 0.1, HomePolicy::disk},
                                           Setting{Precision::bf16, true, 0.0, HomePolicy::device, 128},
                                           Setting{Precision::bf16, false, 0.1, HomePolicy::mixed}),
                         setting_name);

// With layers over GPUs sums are those of one GPU with as many micro-batches, and nothing is exchanged.
TEST_P(SeveralGpusSettings, WithLayersOverThemAreOneThatAccumulates) {
  constexpr u32 micro_batches = 6;
  change_timing(1, most);
  const Numbers expected = train_numbers(config(1, micro_batches));
  for (u32 count = 2; count <= gpus_; ++count) {
    change_timing(count + GetParam().width, most);
    Config several = config(count, micro_batches / count);
    several.machine.parallel = Parallel::layers;
    SCOPED_TRACE(how_to_repeat(several));
    const auto report = test::run(several);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(numbers_of(*report), expected);
    test::check_bytes(*report);
    EXPECT_FALSE(report->comm);
  }
}

TEST_F(SeveralGpus, PlacementChangesNoBit) {
  Config base = gpu_config(dir_, half());
  base.machine.executor = first_gpus(2);
  base.model.embedding_dropout = base.model.attention.dropout = base.model.residual_dropout = 0.1;
  std::optional<Numbers> first;
  u64 seed = 0;
  for (const test::Row& row : test::placement_rows(2)) {
    const Config config = test::placed(row, base);
    SCOPED_TRACE(how_to_repeat(config));
    change_timing(seed++, most);
    const auto report = test::run(config);
    ASSERT_TRUE(report) << report.error().message;
    if (!first) first = numbers_of(*report);
    EXPECT_EQ(numbers_of(*report), *first);
    test::check_bytes(*report);
    check_comm(*report);
    std::filesystem::remove_all(config.output.dir);
  }
}

TEST_F(SeveralGpus, LearnAsTheCpuDoes) {
  Config config = gpu_config(dir_, Precision::fp32);
  config.machine.executor = first_gpus(gpus_);
  const Numbers gpus = train_numbers(config);
  config.machine.executor = fmt::format("cpu:{}", gpus_);
  config.output.dir = dir_ / "cpu";
  const Numbers cpu = train_numbers(config);
  ASSERT_EQ(gpus.losses.size(), cpu.losses.size());
  ASSERT_EQ(gpus.eval_losses.size(), cpu.eval_losses.size());
  for (u64 i = 0; i < gpus.losses.size(); ++i) EXPECT_NEAR(gpus.losses[i], cpu.losses[i], 2e-4) << i;
  for (u64 i = 0; i < gpus.eval_losses.size(); ++i)
    EXPECT_NEAR(gpus.eval_losses[i], cpu.eval_losses[i], 2e-4) << i;
}

// GPUs may be named in any order: a plan numbers devices itself, and their state goes to checkpoints and
// back.
TEST_F(SeveralGpus, ACheckpointOfOneResumesOnTwo) {
  Config two = gpu_config(dir_, half(), "whole");
  two.memory.home = HomePolicy::device;
  two.machine.executor = fmt::format("cuda:{},0", gpus_ - 1);
  two.train.gradient_accumulation_steps = 1;
  const Numbers expected = train_numbers(two);
  Config one = two;
  one.machine.executor = "cuda:0";
  one.train.gradient_accumulation_steps = 2;
  one.output.dir = dir_ / "resumed";
  const auto stopped = test::run(one, {.stop_after = 1});
  ASSERT_FALSE(stopped);
  ASSERT_EQ(stopped.error().kind, ErrorKind::interrupted) << stopped.error().message;
  two.output.dir = one.output.dir;
  EXPECT_EQ(train_numbers(two, {.resume = "auto"}), expected);
}

// ---- several nodes, in one process

// NodeOnGpu is a node that trains for four steps.
struct NodeOnGpu {
  std::vector<double> losses;
  std::map<u32, std::vector<std::byte>> state;  // by kind and window: cut after cut
  std::optional<Error> error;
};

// Takes the losses of steps as their norm completes.
struct LossTaker final : EngineObserver {
  LossTaker(StepResults& results, std::vector<double>& losses) : results(results), losses(losses) {}
  void completed(const Issue& issue, const Completion&) override {
    if (issue.get().kind == OpKind::norm) losses.push_back(results.result(issue.step).loss);
  }
  StepResults& results;
  std::vector<double>& losses;
};

Result<void> train_node(const Config& config, Transport* transport, NodeOnGpu& out) {
  TRY_ASSIGN(const Job job, make_job(config));
  PlanOptions options = plan_options(config, Bytes{0});
  options.chunk_bytes = Bytes{4 * norm_granule_elements};
  TRY_ASSIGN(Plan plan, make_plan(job.graph, options));
  test::HashedData data(job.graph.config.vocab_size);
  data.step_settings.target_tokens = job.graph.batch.rows() * plan.micro_batches;
  if (!plan.clipping) data.step_settings.max_grad_norm = 0;
  if (job.graph.precision == Precision::fp16) data.step_settings.loss_scaling = test::scaling;
  TRY_ASSIGN(const auto session, Session::create(job, std::move(plan), data, {.transport = transport}));
  if (job.graph.precision == Precision::fp16) session->results().set_loss_scale({.scale = test::first_scale});
  const Plan& p = session->plan();
  for (u32 id = 0; id < p.chunks.size(); ++id) {
    if (p.homes[id].bytes.value == 0) continue;
    TRY(session->homes().begin_write_home(ChunkId{id}, test::initial_chunk(p.chunks[id], job.graph)));
    TRY(session->homes().end_write_home(ChunkId{id}));
  }
  const auto engine = Engine::create(p, session->executor(), {.watchdog = Nanos{60'000'000'000}});
  test::SegmentList list(test::training_runs(4, p.clipping));
  LossTaker taker(session->results(), out.losses);
  TRY(engine->run(list, taker));
  for (u32 id = 0; id < p.chunks.size(); ++id) {
    if (p.homes[id].bytes.value == 0 || p.chunks[id].owner != p.node) continue;
    std::vector<std::byte>& to = out.state[static_cast<u32>(p.chunks[id].kind) << 16 | p.chunks[id].window];
    const u64 begin = p.chunks[id].element_begin * p.chunks[id].bytes.value / p.chunks[id].elements;
    if (to.size() < begin + p.chunks[id].bytes.value) to.resize(begin + p.chunks[id].bytes.value);
    TRY(session->homes().read_home(ChunkId{id}, std::span(to).subspan(begin, p.chunks[id].bytes.value)));
  }
  return {};
}

// Joins what the owners have: bytes of other owners' cuts are zero.
std::map<u32, std::vector<std::byte>> joined(const std::vector<NodeOnGpu>& nodes) {
  std::map<u32, std::vector<std::byte>> all;
  for (const NodeOnGpu& node : nodes)
    for (const auto& [key, bytes] : node.state) {
      std::vector<std::byte>& to = all[key];
      to.resize(std::max(to.size(), bytes.size()));
      for (u64 i = 0; i < bytes.size(); ++i) to[i] |= bytes[i];
    }
  return all;
}

class NodesOnGpus : public SeveralGpus, public ::testing::WithParamInterface<Precision> {};

// Two nodes with a GPU each, or with two that share the layers, sum as one GPU with two micro-batches does:
// the host updates the state in both, from the same scalars.
TEST_P(NodesOnGpus, TrainAsOneGpuThatAccumulates) {
  if (!test::gpu_multiplies(GetParam())) GTEST_SKIP() << "these GPUs do not multiply bf16";
  Config config = gpu_config(dir_, GetParam());
  config.model.width = 128;  // so that each node owns something
  config.train.max_grad_norm = 0;
  config.memory.home = HomePolicy::host;
  config.train.gradient_accumulation_steps = 2;
  NodeOnGpu one;
  const Result<void> ran = train_node(config, nullptr, one);
  ASSERT_TRUE(ran) << ran.error().message;
  change_timing(5, most);
  auto transports = create_local_transports({.nodes = 2, .seed = 3, .delay_us_max = 200}).value();
  std::vector<NodeOnGpu> nodes(2);
  std::vector<std::thread> threads;
  for (u32 node = 0; node < 2; ++node)
    threads.emplace_back([&, node] {
      Config own = config;
      own.train.gradient_accumulation_steps = 1;
      own.machine.nodes = 2, own.machine.node = node;
      own.machine.executor = fmt::format("cuda:{}", node);
      own.output.dir += std::to_string(node);
      const Result<void> trained = train_node(own, transports[node].get(), nodes[node]);
      if (!trained) nodes[node].error = trained.error();
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<std::thread> ends;  // each says goodbye and waits for the other
  for (auto& transport : transports) ends.emplace_back([&transport] { transport.reset(); });
  for (std::thread& thread : ends) thread.join();
  for (const NodeOnGpu& node : nodes) {
    ASSERT_FALSE(node.error) << node.error->message;
    EXPECT_EQ(node.losses, one.losses);
  }
  EXPECT_EQ(one.losses.size(), 4u);
  EXPECT_TRUE(joined(nodes) == one.state);
}
INSTANTIATE_TEST_SUITE_P(Precisions, NodesOnGpus,
                         ::testing::Values(Precision::fp32, Precision::bf16, Precision::fp16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace tidepool::several_gpus_test
