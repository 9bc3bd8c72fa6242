// Contract of every executor towards the engine, asked of each executor without an engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "executor/sim/sim_executor.h"
#include "tests/support/cpu_rig.h"
#include "tests/support/tiny_plan.h"

namespace tidepool::executor_contract_test {

using test::CpuRig;
using test::CpuRigOptions;
using test::frame;
using test::HashedData;
using test::lane;
using test::TinyPlan;
using enum SegmentKind;

ModelGraph one_window_graph() {
  ModelGraph graph;
  graph.windows.push_back({.name = "h.0"});
  graph.batch = {.sequences = 1, .tokens = 4};
  return graph;
}

enum class Which { sim, cpu };

class ExecutorContract : public ::testing::TestWithParam<Which> {
 protected:
  Executor& make(const Plan& plan, const CpuRigOptions& options = {}) {
    if (GetParam() == Which::sim) {
      sim_ = SimExecutor::create(plan, graph_, {.jitter = 0.5});
      return *sim_;
    }
    rig_ = std::make_unique<CpuRig>(plan, graph_, data_, options);
    for (u32 i = 0; i < plan.chunks.size(); ++i) {
      if (plan.homes[i].bytes.value == 0) continue;
      const std::vector<std::byte> content(plan.homes[i].bytes.value, std::byte(i + 1));
      EXPECT_TRUE(rig_->executor->write_home(ChunkId{i}, content));
    }
    return *rig_->executor;
  }

  static Issue issue(const Plan& plan, OpId op, u64 first = 0) {
    return {.segment = &plan.segment(body), .op = op, .sequence = first + index(op), .step = 1};
  }

  // Collects until `count` ops have completed; each completion must be new.
  std::map<u64, Completion> collect(Executor& executor, u64 count) {
    std::map<u64, Completion> all;
    for (u32 waits = 0; all.size() < count && waits < 1000; ++waits) {
      for (Completion c : executor.wait()) {
        if (c.error) errors_.push_back(*c.error);
        c.error = nullptr;
        EXPECT_TRUE(all.emplace(c.sequence, c).second) << c.sequence << " completed twice";
        order_.push_back(c.sequence);
      }
    }
    EXPECT_EQ(all.size(), count);
    return all;
  }

  ModelGraph graph_ = one_window_graph();
  HashedData data_{100};
  std::unique_ptr<SimExecutor> sim_;
  std::unique_ptr<CpuRig> rig_;
  std::vector<u64> order_;
  std::vector<Error> errors_;
};

TEST_P(ExecutorContract, AnOrderedLaneRunsOneOpAfterTheOther) {
  TinyPlan tiny;
  std::vector<OpId> ops;
  for (u64 i = 0; i < 6; ++i) {
    const Frame home = frame(Tier::host, i * 64, 64);
    const ChunkId chunk = tiny.add_chunk(home);
    ops.push_back(tiny.move(body, LaneKind::h2d, chunk, 0, home, frame(Tier::device, i * 64, 64)));
  }
  Executor& executor = make(tiny.plan);
  for (const OpId op : ops) executor.submit(issue(tiny.plan, op), {});
  const auto done = collect(executor, ops.size());
  EXPECT_TRUE(std::is_sorted(order_.begin(), order_.end()));
  for (u64 i = 0; i < ops.size(); ++i) {
    EXPECT_LE(done.at(i).started, done.at(i).finished);
    if (i > 0) {
      EXPECT_GE(done.at(i).started, done.at(i - 1).finished);
    }
  }
  EXPECT_TRUE(errors_.empty());
}

TEST_P(ExecutorContract, AnOpWaitsForTheOpsInFlightThatItFollows) {
  TinyPlan tiny;
  const Frame home = frame(Tier::host, 0, 512), there = frame(Tier::device, 0, 512);
  const ChunkId chunk = tiny.add_chunk(home);
  const OpId down = tiny.move(body, LaneKind::h2d, chunk, 0, home, there);
  const OpId up = tiny.move(body, LaneKind::d2h, chunk, 0, there, frame(Tier::host, 512, 512), {down});
  Executor& executor = make(tiny.plan);
  executor.submit(issue(tiny.plan, down), {});
  const u64 in_flight[] = {index(down)};
  executor.submit(issue(tiny.plan, up), in_flight);
  const auto done = collect(executor, 2);
  EXPECT_GE(done.at(1).started, done.at(0).finished);
  EXPECT_EQ(order_, (std::vector<u64>{0, 1}));
  EXPECT_TRUE(errors_.empty());
}

TEST_P(ExecutorContract, LanesTakeAsManyOpsAsTheyDeclare) {
  TinyPlan tiny;
  const Frame home = frame(Tier::host, 0), there = frame(Tier::device, 0);
  const ChunkId chunk = tiny.add_chunk(home);
  for (u32 i = 0; i < 100; ++i) tiny.move(body, LaneKind::h2d, chunk, 0, home, there);
  Executor& executor = make(tiny.plan);
  const LaneId h2d = lane(LaneKind::h2d);
  const u32 depth = executor.slots_free(h2d);
  EXPECT_GE(depth, 2u);
  u32 next = 0, completed = 0;
  while (completed < 100) {
    while (next < 100 && executor.slots_free(h2d) > 0) {
      EXPECT_EQ(executor.slots_free(h2d), depth - (next - completed));
      executor.submit(issue(tiny.plan, OpId{next++}), {});
    }
    const u64 some = executor.wait().size();
    ASSERT_GT(some, 0u);
    completed += static_cast<u32>(some);
  }
  EXPECT_EQ(executor.slots_free(h2d), depth);
}

TEST_P(ExecutorContract, DiskLanesCompleteEverythingOnce) {
  TinyPlan tiny;
  std::vector<OpId> reads, writes;
  for (u64 i = 0; i < 8; ++i) {
    const Frame home = frame(Tier::disk, i), host = frame(Tier::host, i);
    const ChunkId chunk = tiny.add_chunk(home);
    reads.push_back(tiny.move(body, LaneKind::disk_read, chunk, 0, home, host));
    writes.push_back(tiny.move(body, LaneKind::disk_write, chunk, 0, host, home, {reads.back()}));
  }
  Executor& executor = make(tiny.plan);
  for (u64 first = 0; first < 160; first += 16) {  // ten runs
    for (const OpId op : reads) executor.submit(issue(tiny.plan, op, first), {});
    collect(executor, reads.size());
    for (const OpId op : writes) executor.submit(issue(tiny.plan, op, first), {});
    collect(executor, writes.size());
  }
  EXPECT_EQ(order_.size(), 160u);
  EXPECT_TRUE(errors_.empty());
}

TEST_P(ExecutorContract, AWaitWithoutACompletionTimesOut) {
  TinyPlan tiny;
  tiny.add(body, OpKind::forward, LaneKind::compute);
  Executor& executor = make(tiny.plan, {.patience = Nanos{50'000'000}});
  EXPECT_TRUE(executor.wait().empty());
}

INSTANTIATE_TEST_SUITE_P(Executors, ExecutorContract, ::testing::Values(Which::sim, Which::cpu),
                         [](const auto& info) { return info.param == Which::sim ? "sim" : "cpu"; });

// ---- tests that need real bytes

class CpuContract : public ExecutorContract {};
INSTANTIATE_TEST_SUITE_P(Executors, CpuContract, ::testing::Values(Which::cpu),
                         [](const auto&) { return "cpu"; });

TEST_P(CpuContract, MovesTheBytesAndCountsThem) {
  TinyPlan tiny;
  const Frame home = frame(Tier::disk, 3, 700);  // over 2 MiB: several pieces
  const ChunkId chunk = tiny.add_chunk(home);
  const Frame host = frame(Tier::host, 0, 700), device = frame(Tier::device, 1, 700);
  const OpId read = tiny.move(body, LaneKind::disk_read, chunk, 0, home, host);
  const OpId down = tiny.move(body, LaneKind::h2d, chunk, 0, host, device);
  const OpId up = tiny.move(body, LaneKind::d2h, chunk, 0, device, host);
  const OpId write = tiny.move(body, LaneKind::disk_write, chunk, 0, host, home);
  TrainingExecutor& executor = static_cast<TrainingExecutor&>(make(tiny.plan));
  std::vector<std::byte> content(home.bytes.value);
  for (u64 i = 0; i < content.size(); ++i) content[i] = std::byte(i * 31 >> 3);
  ASSERT_TRUE(executor.write_home(chunk, content));
  for (const OpId op : {read, down, up, write}) {
    executor.submit(issue(tiny.plan, op), {});
    collect(executor, 1);
  }
  const auto moved = executor.moved();
  for (const Bytes bytes : moved) EXPECT_EQ(bytes, home.bytes);
  EXPECT_TRUE(std::equal(content.begin(), content.end(), rig_->devices[0]->span().begin() + frame_alignment));
  std::vector<std::byte> back(content.size());
  ASSERT_TRUE(executor.read_home(chunk, back));
  EXPECT_EQ(back, content);
  EXPECT_EQ(executor.high_water(Tier::device).value, 701 * frame_alignment);
  EXPECT_EQ(executor.high_water(Tier::disk).value, 703 * frame_alignment);
}

TEST_P(CpuContract, ClearedHomesArriveAsZerosAndAreChecked) {
  TinyPlan tiny;
  const Frame home = frame(Tier::disk, 3, 700), host = frame(Tier::host, 0, 700);
  const ChunkId chunk = tiny.add_chunk(home);
  const OpId read = tiny.move(body, LaneKind::disk_read, chunk, 0, home, host);
  const OpId write = tiny.move(body, LaneKind::disk_write, chunk, 0, host, home);
  TrainingExecutor& executor = static_cast<TrainingExecutor&>(make(tiny.plan));
  ASSERT_TRUE(executor.write_home(chunk, std::vector<std::byte>(home.bytes.value, std::byte{9})));
  ASSERT_TRUE(executor.clear_home(chunk));
  std::vector<std::byte> back(home.bytes.value, std::byte{1});
  ASSERT_TRUE(executor.read_home(chunk, back));
  EXPECT_TRUE(std::ranges::all_of(back, [](std::byte b) { return b == std::byte{0}; }));
  executor.submit(issue(tiny.plan, read), {});
  collect(executor, 1);
  EXPECT_TRUE(errors_.empty());
  rig_->host.span()[5] = std::byte{1};
  executor.submit(issue(tiny.plan, write), {});
  collect(executor, 1);
  ASSERT_TRUE(executor.read_home(chunk, back));
  EXPECT_EQ(back[5], std::byte{1});
}

// Writes from the arena are not copied: several chunks are in flight at once.
TEST_P(CpuContract, HomesAreWrittenFromTheArenaWhileOthersAreFilled) {
  TinyPlan tiny;
  std::vector<ChunkId> chunks;
  for (u32 i = 0; i < writes_at_rest_max; ++i) chunks.push_back(tiny.add_chunk(frame(Tier::disk, 8 * i, 8)));
  for (const Tier tier : {Tier::host, Tier::disk})
    tiny.plan.tiers[static_cast<u32>(tier)].planned_peak = Bytes{8 * frame_alignment * chunks.size()};
  TrainingExecutor& executor = static_cast<TrainingExecutor&>(make(tiny.plan));
  const auto content = [&](u32 i) {
    return rig_->host.span().subspan(8 * frame_alignment * i, 8 * frame_alignment);
  };
  for (u32 round = 0; round < 3; ++round) {
    for (u32 i = 0; i < chunks.size(); ++i) {
      std::ranges::fill(content(i), std::byte(17 * round + i));
      ASSERT_TRUE(executor.begin_write_home(chunks[i], content(i)));
    }
    for (const ChunkId chunk : chunks) ASSERT_TRUE(executor.end_write_home(chunk));
    std::vector<std::byte> back(8 * frame_alignment);
    for (u32 i = 0; i < chunks.size(); ++i) {
      ASSERT_TRUE(executor.read_home(chunks[i], back));
      EXPECT_TRUE(std::ranges::equal(back, content(i))) << round << " " << i;
    }
  }
}

TEST_P(CpuContract, AFaultOfTheDataEndsTheRun) {
  TinyPlan tiny;
  const ChunkId batch = tiny.add_transient(Kind::batch);
  const OpId load =
      tiny.add(body, OpKind::load_batch, LaneKind::host, {},
               {{.first = batch, .version = 1, .access = Access::write, .frame = frame(Tier::host, 0)}});
  const OpId copy = tiny.move(body, LaneKind::h2d, batch, 1, frame(Tier::host, 0), frame(Tier::device, 0));
  data_.fault = Error{ErrorKind::bad_input, "train.txt: shorter than one sequence"};
  Executor& executor = make(tiny.plan);
  executor.submit(issue(tiny.plan, load), {});
  collect(executor, 1);
  ASSERT_EQ(errors_.size(), 1u);
  EXPECT_EQ(errors_[0].kind, ErrorKind::bad_input);
  executor.submit(issue(tiny.plan, copy), {});  // completes without doing anything
  collect(executor, 1);
  EXPECT_EQ(rig_->devices[0]->span()[0], std::byte{0xA5});
}

// Runs with a disk that has one fault at the first page of the only chunk.
std::vector<Error> run_with_fault(DiskFault fault, DiskOp op, u32 nth) {
  TinyPlan tiny;
  const Frame home = frame(Tier::disk, 0), host = frame(Tier::host, 0);
  const ChunkId chunk = tiny.add_chunk(home);
  tiny.add_chunk(frame(Tier::disk, 1));
  const OpId ops[] = {tiny.move(body, LaneKind::disk_read, chunk, 0, home, host),
                      tiny.move(body, LaneKind::disk_write, chunk, 0, host, home),
                      tiny.move(body, LaneKind::disk_read, chunk, 0, home, host)};
  tiny.plan.tiers[2].planned_peak = Bytes{2 * frame_alignment};
  const ModelGraph graph = one_window_graph();
  HashedData data(10);
  DiskFaults faults;
  faults.scripted.push_back({.fault = fault, .op = op, .offset = 0, .nth = nth});
  CpuRig rig(tiny.plan, graph, data, {.faults = faults});
  for (u32 i = 0; i < 2; ++i) {
    EXPECT_TRUE(
        rig.executor->write_home(ChunkId{i}, std::vector<std::byte>(frame_alignment, std::byte(7 + i))));
  }
  std::vector<Error> errors;
  for (const OpId id : ops) {
    rig.executor->submit({.segment = &tiny.plan.segment(body), .op = id, .sequence = index(id), .step = 1},
                         {});
    for (u32 completed = 0; completed == 0;) {
      for (const Completion& c : rig.executor->wait()) {
        ++completed;
        if (c.error) errors.push_back(*c.error);
      }
    }
    rig.host.span()[0] ^= std::byte{1};  // so that every version differs
  }
  return errors;
}

TEST(CpuExecutorFaults, AreTypedAndNameTheChunk) {
  for (const auto& [fault, op, nth] :
       {std::tuple{DiskFault::io_error, DiskOp::read, 0u}, std::tuple{DiskFault::no_space, DiskOp::write, 1u},
        std::tuple{DiskFault::bit_flip, DiskOp::read, 0u},
        std::tuple{DiskFault::misdirected_read, DiskOp::read, 1u}}) {
    const std::vector<Error> errors = run_with_fault(fault, op, nth);
    ASSERT_EQ(errors.size(), 1u) << static_cast<u32>(fault);
    EXPECT_EQ(errors[0].kind, ErrorKind::io);
    EXPECT_THAT(errors[0].message, ::testing::HasSubstr("momentum of h.0 cut 0"));
  }
}

TEST(CpuExecutorFaults, ALostWriteIsSeenWhenItsVersionIsReadAgain) {
  const std::vector<Error> errors = run_with_fault(DiskFault::lost_write, DiskOp::write, 1);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_THAT(errors[0].message, ::testing::HasSubstr("checksum mismatch"));
}

}  // namespace tidepool::executor_contract_test
