// Short ops as graphs, in whole runs: which ops become graphs, that no number changes, and that obstacles do
// no harm.
#include <algorithm>
#include <array>

#include "executor/cuda/cuda_devices.h"
#include "executor/gpu_reserved.h"
#include "fit/job.h"
#include "session/session.h"
#include "tests/cuda/recorded_run.h"
#include "tests/support/asked_plan.h"
#include "tests/support/segments.h"

namespace tidepool::emulated_op_graphs_test {

using test::Call;
using test::CallKind;
using test::gpu_config;
using test::NoData;
using test::Numbers;
using test::Recorder;
using test::train_numbers;
using test::TrainDir;

// On the clock of events, either every op is short, or none is.
constexpr double short_us = 1, long_us = 1000;

class EmulatedOpGraphs : public ::testing::Test {
 protected:
  EmulatedOpGraphs() {
    reset({.operation_us = short_us});
    register_cuda();
  }
  void reset(const emulated_cuda::Options& options) { emulated_cuda::reset(options); }

  // Calls of the compute lane for one op in one step.
  struct Handed {
    Op op;
    u64 step = 0;
    SegmentKind segment{};
    BlockKind block{};
    u64 launches = 0, captured = 0, graphs = 0;

    bool of_layer() const {
      return block == BlockKind::layer && (op.kind == OpKind::forward || op.kind == OpKind::backward);
    }
    bool plain() const { return graphs == 0 && captured == 0; }
    bool replayed() const { return graphs == 1 && captured == 0 && launches == 0; }
  };
  std::vector<Handed> run_steps(const Config& config, u64 steps, const emulated_cuda::Faults& faults = {});
  Numbers train_with(const emulated_cuda::Options& options, Config config,
                     const emulated_cuda::Faults& faults = {}) {
    reset(options);
    emulated_cuda::set_faults(faults);
    config.output.dir = dir_ / "run" + std::to_string(runs_++);
    const Numbers numbers = train_numbers(config);
    graphs_launched_ = std::ranges::count(emulated_cuda::calls(), CallKind::graph_launch, &Call::kind);
    return numbers;
  }
  Config config() const {
    Config c = gpu_config(dir_);
    c.train.max_steps = 5;
    return c;
  }

  const TrainDir dir_;
  i64 graphs_launched_ = 0;   // in the last train_with
  Bytes planned_{}, peak_{};  // of the last run_steps: a device's planned memory, and its peak
  u32 runs_ = 0;
};

std::vector<EmulatedOpGraphs::Handed> EmulatedOpGraphs::run_steps(const Config& config, u64 steps,
                                                                  const emulated_cuda::Faults& faults) {
  const Job job = make_job(config).value();
  NoData source;
  const auto session = Session::create(job, make_plan(job.graph, job.options).value(), source).value();
  Recorder recorder(session->executor());
  const auto engine = Engine::create(session->plan(), recorder, {});
  test::SegmentList list(test::training_runs(steps, true));
  EngineObserver nobody;
  emulated_cuda::clear_calls();
  emulated_cuda::set_faults(faults);
  const auto ran = engine->run(list, nobody);
  EXPECT_TRUE(ran) << ran.error().message;
  planned_ = session->plan().tiers[static_cast<u32>(Tier::device)].planned_peak;
  peak_ = Bytes{emulated_cuda::live().device_bytes_peak};

  unsigned compute = ~0u;  // the first stream that was made
  for (const Call& call : emulated_cuda::calls())
    if (call.stream != 0) compute = std::min(compute, call.stream);
  std::vector<Call> calls;
  for (const Call& call : emulated_cuda::calls())
    if (call.stream == compute) calls.push_back(call);
  std::vector<Handed> all;
  u64 at = 0;
  for (const auto& [issue, in_flight] : recorder.submissions) {
    const Op& op = issue.get();
    if (op.lane.kind != LaneKind::compute) continue;
    Handed handed{.op = op, .step = issue.step, .segment = issue.segment->kind};
    handed.block = op.block == none ? BlockKind::head : job.graph.blocks[op.block].kind;
    for (const Call& call : test::next_op(calls, at).work) {
      if (call.kind == CallKind::graph_launch) {
        ++handed.graphs;
      } else {
        ++(call.captured ? handed.captured : handed.launches);
      }
    }
    all.push_back(handed);
  }
  return all;
}

// ---- which ops

TEST_F(EmulatedOpGraphs, LayersAreRunThenCapturedThenReplayed) {
  u64 plain = 0, captured = 0, replayed = 0;
  for (const Handed& op : run_steps(config(), 5)) {
    if (op.segment != SegmentKind::body || !op.of_layer()) {
      EXPECT_TRUE(op.plain()) << name(op.op.kind) << " of " << name(op.segment);
    } else if (op.step == 2) {
      EXPECT_TRUE(op.plain() && op.launches > 5) << op.launches;
      ++plain;
    } else if (op.step == 3) {
      EXPECT_TRUE(op.captured > 5 && op.graphs == 1 && op.launches == 0) << op.captured << " " << op.graphs;
      ++captured;
    } else {
      EXPECT_TRUE(op.replayed()) << op.launches;
      ++replayed;
    }
  }
  EXPECT_EQ(plain, 8u) << "two layers, two micro-batches, forward and backward";
  EXPECT_EQ(captured, plain);
  EXPECT_EQ(replayed, 2 * plain);
}

// Forward has fewer launches than backward: on this clock forward is below 0.2 ms and backward is not.
TEST_F(EmulatedOpGraphs, LongOpsStayPlain) {
  reset({.operation_us = 12});
  u64 replayed = 0;
  for (const Handed& op : run_steps(config(), 5)) {
    if (!op.of_layer() || op.op.kind == OpKind::backward) {
      EXPECT_TRUE(op.plain()) << name(op.op.kind) << " with " << op.launches;
    }
    replayed += op.replayed();
  }
  EXPECT_EQ(replayed, 8u);
}

TEST_F(EmulatedOpGraphs, OpsWithDropoutStayPlain) {
  Config with_adapters = config();
  with_adapters.lora = {.r = 4, .dropout = 0.1};
  Config residual = config(), attention = config();
  residual.model.residual_dropout = 0.1;
  attention.model.attention.dropout = 0.1;
  for (const Config& c : {residual, attention, with_adapters})
    for (const Handed& op : run_steps(c, 4)) EXPECT_TRUE(op.plain()) << name(op.op.kind);
  with_adapters.lora.dropout = 0;
  Config embedding = config();
  embedding.model.embedding_dropout = 0.1;
  for (const Config& c : {embedding, with_adapters})
    EXPECT_EQ(std::ranges::count_if(run_steps(c, 4), &Handed::replayed), 8) << "layers drop nothing";
}

// ---- numbers must not change

TEST_F(EmulatedOpGraphs, NoBitChanges) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    SCOPED_TRACE(name(precision));
    Config c = test::gpu_config(dir_, precision);
    c.train.max_steps = 6;
    const Numbers plain = train_with({.operation_us = long_us}, c);
    EXPECT_EQ(graphs_launched_, 0);
    ASSERT_EQ(plain.losses.size(), 6u);
    for (u64 seed = 0; seed < 3; ++seed) {
      c.memory.home = seed == 1 ? HomePolicy::device : HomePolicy::host;
      const emulated_cuda::Options options{.seed = seed + 1,
                                           .jitter_us_max = seed == 1 ? 50u : 0u,
                                           .late_streams = seed == 2,
                                           .operation_us = short_us};
      EXPECT_EQ(train_with(options, c), plain) << seed;
      EXPECT_GT(graphs_launched_, 20);
    }
  }
}

// A library's calls are captured too.
TEST_F(EmulatedOpGraphs, AttentionOfALibraryIsCapturedToo) {
  Config c = test::gpu_config(dir_, Precision::bf16);
  c.model.positions = c.train.sequence_length = 128;
  c.train.per_device_train_batch_size = 2;
  c.train.max_steps = 4;
  c.memory.budgets.device = Bytes{96 * mib};
  const Numbers plain = train_with({.operation_us = long_us, .cudnn = true}, c);
  EXPECT_EQ(graphs_launched_, 0);
  EXPECT_EQ(train_with({.operation_us = short_us, .cudnn = true}, c), plain);
  EXPECT_GT(graphs_launched_, 4);
  EXPECT_GT(std::ranges::count_if(
                emulated_cuda::calls(),
                [](const Call& call) { return call.kind == CallKind::attention && call.captured; }),
            4);
}

TEST_F(EmulatedOpGraphs, PackedDocumentsAreReadWhereTheyLie) {
  Config c = test::gpu_config(dir_, Precision::bf16);
  c.model = test::small_model(Family::llama);
  c.data.packing = true;
  c.train.max_steps = 5;
  ASSERT_TRUE(packs_documents(c));
  const Numbers plain = train_with({.operation_us = long_us}, c);
  EXPECT_EQ(train_with({.operation_us = short_us}, c), plain);
  EXPECT_GT(graphs_launched_, 8);
}

TEST_F(EmulatedOpGraphs, EachOfSeveralGpusHasItsOwn) {
  test::change_timing(0, 2);  // sets the path of NCCL
  Config c = config();
  c.machine.executor = test::first_gpus(2);
  c.train.gradient_accumulation_steps = 1;
  const Numbers plain = train_with({.operation_us = long_us, .devices = 2}, c);
  EXPECT_EQ(train_with({.operation_us = short_us, .devices = 2}, c), plain);
  std::array<u64, 2> launched{};
  for (const Call& call : emulated_cuda::calls())
    if (call.kind == CallKind::graph_launch) ++launched.at(static_cast<u32>(call.device));
  EXPECT_EQ(launched[0], launched[1]);
  EXPECT_GT(launched[0], 4u);
}

// ---- memory

TEST_F(EmulatedOpGraphs, TheAllowanceIsKept) {
  Config c = config();
  c.train.gradient_accumulation_steps = 16;
  reset({.operation_us = short_us, .graph_node_bytes = 16 * kib});
  const std::vector<Handed> handed = run_steps(c, 5);
  u64 bytes = 0, plain = 0;
  for (const Handed& op : handed) {
    if (op.graphs == 1) bytes += op.captured * 16 * kib;
    plain += op.step == 5 && op.segment == SegmentKind::body && op.of_layer() && op.plain();
    EXPECT_TRUE(op.step == 3 || op.captured == 0) << "what found no room does not try again";
  }
  EXPECT_LE(bytes, gpu_graphs_max.value);
  EXPECT_GT(bytes, gpu_graphs_max.value / 2);
  EXPECT_GT(plain, 0u);
  EXPECT_LE(peak_, planned_);
}

// Other users of the card take memory too, so graphs count their own nodes.
TEST_F(EmulatedOpGraphs, OnlyNodesAreCountedAgainstTheAllowance) {
  reset({.operation_us = short_us, .graph_node_bytes = 256 * kib});
  u64 replayed = 0;
  for (const Handed& op : run_steps(config(), 5)) replayed += op.step == 5 && op.replayed();
  EXPECT_EQ(replayed, 8u);
}

// ---- obstacles

TEST_F(EmulatedOpGraphs, AnOpWhoseCaptureFailedStaysPlain) {
  const auto plain = train_with({.operation_us = long_us}, config());
  struct Case {
    const char* what;
    emulated_cuda::Faults faults;
  };
  const Case cases[] = {
      {"a capture is spoilt at its first launch", {.capture = 1}},
      {"at a later one", {.capture = 7}},
      {"instantiation", {.instantiation = 1}},
      {"another one", {.instantiation = 4}},
  };
  for (const auto& [what, faults] : cases) {
    SCOPED_TRACE(what);
    reset({.operation_us = short_us});
    const std::vector<Handed> handed = run_steps(config(), 5, faults);
    emulated_cuda::set_faults({});
    u64 stay_plain = 0, replayed = 0;
    for (const Handed& op : handed) {
      if (op.segment != SegmentKind::body || op.step != 5 || !op.of_layer()) continue;
      stay_plain += op.plain();
      replayed += op.replayed();
    }
    EXPECT_EQ(stay_plain, 1u);
    EXPECT_EQ(replayed, 7u);
    EXPECT_EQ(train_with({.operation_us = short_us}, config(), faults), plain);
  }
}

}  // namespace tidepool::emulated_op_graphs_test
