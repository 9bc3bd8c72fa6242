// Ends of runs of nodes: early stopping, signals, and faults of one node. All nodes end after the same step,
// and each says why. Without a launcher nothing of MPI is loaded.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/file_text.h"
#include "tests/support/node_run.h"
#include "tests/support/places.h"

namespace tidepool::run_end_test {

namespace fs = std::filesystem;
using test::ChildRun;
using test::file_text;
using test::NodeLauncher;
using test::NodeRun;
using test::NodeRunOptions;
using test::Numbers;
using test::TrainDir;
using ::testing::HasSubstr;
using ::testing::Not;

class RunEnd : public ::testing::TestWithParam<NodeLauncher> {
 protected:
  void SetUp() override {
    if (const std::string why = test::why_not_under(GetParam()); !why.empty())
      GTEST_SKIP() << "SKIPPED: " << why;
  }
  Config config(const std::string& run) const {
    Config c = test::small_config(dir_, run);
    c.machine.threads = 1;
    c.machine.executor = "cpu";
    c.machine.peer_timeout_seconds = 10;
    return c;
  }
  const TrainDir dir_;
};

INSTANTIATE_TEST_SUITE_P(Launchers, RunEnd, ::testing::Values(NodeLauncher::open_mpi, NodeLauncher::mpich),
                         [](const auto& info) { return test::name_of(info.param); });

TEST_P(RunEnd, EarlyStoppingStopsAllNodes) {
  Config one = config("one");
  one.train.max_steps = 60;
  one.train.eval_steps = 2;
  one.train.learning_rate = 0.3;  // the loss soon grows
  one.train.early_stopping_patience = 2;
  Config two = one;
  two.output.dir = dir_ / "two";
  one.train.gradient_accumulation_steps = 2;
  const Numbers expected = test::train_numbers(one);
  ASSERT_LT(expected.losses.size(), 60u);
  EXPECT_EQ(test::train_on_nodes(two, {.launcher = GetParam()}), expected);
  for (const auto& entry : fs::directory_iterator(one.output.dir))
    EXPECT_TRUE(fs::exists(fs::path(two.output.dir) / entry.path().filename()) ||
                entry.path().filename().string().starts_with("events"))
        << entry.path();
}

TEST_P(RunEnd, WithoutCheckpointsNothingIsSaved) {
  Config c = config("run");
  c.output.save = false;
  c.train.max_steps = 40'000;
  NodeRun run(c, {.launcher = GetParam()});
  ASSERT_TRUE(run.wait_for_steps(5)) << run.said_by_all();
  ::kill(run.pid(0), SIGTERM);
  EXPECT_EQ(run.wait(), 75) << run.said_by_all();
  EXPECT_THAT(run.said(0), HasSubstr("interrupted after step"));
  EXPECT_TRUE(run.ended_well(1)) << run.said_by_all();
  EXPECT_EQ(run.steps_logged(0), run.steps_logged(1));
  for (const auto& entry : fs::directory_iterator(c.output.dir))
    EXPECT_THAT(entry.path().string(), Not(HasSubstr("checkpoint")));
}

TEST_P(RunEnd, ASignalToSaveSavesOnceWhicheverNodeHearsIt) {
  Config c = config("run");
  c.train.max_steps = 40'000;
  c.output.save_steps = 0;
  NodeRun run(c, {.launcher = GetParam()});
  ASSERT_TRUE(run.wait_for_steps(5)) << run.said_by_all();
  const auto saved = [&] {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(c.output.dir))
      count += fs::exists(entry.path() / "manifest.json") ? 1 : 0;
    return count;
  };
  for (const u32 node : {0u, 1u}) {
    ::kill(run.pid(node), SIGUSR1);
    while (saved() == node && run.code(0) == -1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const u64 steps = run.steps_logged(0);
    ASSERT_TRUE(run.wait_for_steps(steps + 5)) << run.said_by_all();
    EXPECT_EQ(saved(), node + 1) << run.said_by_all();
    EXPECT_THAT(run.said(node), HasSubstr("SIGUSR1: saving after this step"));
  }
  ::kill(run.pid(1), SIGTERM);
  EXPECT_EQ(run.wait(), 75) << run.said_by_all();
  EXPECT_EQ(run.code(0), 75);
  EXPECT_TRUE(run.ended_well(1)) << run.said_by_all();
}

// The terminal sends Ctrl-C to the launcher and to all nodes.
TEST_P(RunEnd, ASignalToAllNodesStopsThemOnce) {
  Config c = config("run");
  c.train.max_steps = 40'000;
  NodeRun run(c, {.nodes = 3, .launcher = GetParam()});
  ASSERT_TRUE(run.wait_for_steps(5)) << run.said_by_all();
  for (const u32 node : {2u, 0u, 1u}) ::kill(run.pid(node), SIGTERM);
  EXPECT_EQ(run.wait(), 75) << run.said_by_all();
  EXPECT_EQ(run.code(0), 75);
  for (const u32 node : {1u, 2u}) EXPECT_TRUE(run.ended_well(node)) << run.said_by_all();
  EXPECT_THAT(run.said(0), HasSubstr("--resume auto"));
}

// Regression: mpirun stops reading when it is told to stop, and then no step ended any more.
TEST_P(RunEnd, ALauncherThatStopsReadingHoldsNoStepAndASignalSaves) {
  Config c = config("run");
  c.train.max_steps = 1'000'000;
  c.output.save_steps = 0;
  c.output.logging_steps = 1;
  NodeRun run(c, {.launcher = GetParam(), .through_launcher = true});
  ASSERT_TRUE(run.wait_for_steps(5)) << run.said_by_all();
  const pid_t reader = run.reader_of(0);
  ::kill(reader, SIGSTOP);
  ASSERT_TRUE(run.wait_for_steps(1'000));  // more than 64 KiB of lines
  ::kill(run.pid(1), SIGTERM);
  const auto saved = [&] {
    for (const auto& entry : fs::directory_iterator(c.output.dir))
      if (fs::exists(entry.path() / "manifest.json")) return true;
    return false;
  };
  // A look while a directory gets its name may miss it, so one that found it counts.
  bool is_saved = false;
  while (!(is_saved = saved()) && run.code(0) == -1)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_TRUE(is_saved || saved());  // while the launcher does not read
  ::kill(reader, SIGCONT);
  EXPECT_EQ(run.wait(), 75) << run.said_by_all();
  EXPECT_TRUE(saved());
}

// `mpirun tidepool eval` ran once for each node.
TEST_P(RunEnd, CommandsOfOneProcessAreRunByNode0) {
  Config c = config("run");
  ASSERT_FALSE(test::train_numbers(c).losses.empty());
  const std::string launcher = test::found_in_path(test::program_of(GetParam()));
  const bool open_mpi = GetParam() == NodeLauncher::open_mpi;
  const auto launched = [&](const std::string& words) {
    const std::string out = dir_ / "out", err = dir_ / "err";
    const int status = std::system(fmt::format("'{}' {} -n 3 '{}' {} >'{}' 2>'{}' </dev/null", launcher,
                                               open_mpi ? "--oversubscribe --allow-run-as-root" : "",
                                               program_file(), words, out, err)
                                       .c_str());
    EXPECT_EQ(WEXITSTATUS(status), 0) << words << file_text(err);
    for (const u32 node : {1u, 2u})
      EXPECT_THAT(file_text(err),
                  HasSubstr(fmt::format("tidepool: node {} of 3 has nothing to do: node 0 runs", node)));
    return file_text(out);
  };
  const auto count = [](const std::string& text, const std::string& part) {
    u64 times = 0;
    for (u64 at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
    return times;
  };
  EXPECT_EQ(count(launched(fmt::format("eval '{}'", c.output.dir)), "perplexity"), 1u);
  EXPECT_EQ(count(launched(fmt::format("export '{}' '{}'", c.output.dir, dir_ / "out_dir")), "wrote "), 1u);
  EXPECT_EQ(count(launched(fmt::format("plan '{}/config.yaml'", c.output.dir)), "Tidepool plan"), 1u);
  const std::string generate = fmt::format("generate --max-new-tokens=2 '{}'", c.output.dir);
  const std::string alone = dir_ / "alone";
  ASSERT_EQ(std::system(fmt::format("'{}' {} >'{}' 2>/dev/null", program_file(), generate, alone).c_str()),
            0);
  // A launcher may print through a terminal, where other bytes are shown as escapes: the lines are counted.
  EXPECT_EQ(count(launched(generate), "\n"), count(file_text(alone), "\n"));
}

TEST_P(RunEnd, AKilledNodeIsNamedAndTheRunResumes) {
  Config c = config("run");
  c.train.max_steps = 120;
  c.output.save_steps = 10;
  c.memory.home = HomePolicy::disk;
  c.memory.chunk_size = Bytes{40 * kib};
  Config one = c;
  one.output.dir = dir_ / "one";
  one.train.gradient_accumulation_steps = 2;
  const Numbers undisturbed = test::train_numbers(one);
  for (const u32 dies : {1u, 0u}) {
    NodeRun run(c, {.launcher = GetParam(), .resume = "auto", .others_live_on = true});
    ASSERT_TRUE(run.wait_for_steps(dies == 1 ? 25 : 60)) << run.said_by_all();
    ::kill(run.pid(dies), SIGKILL);
    run.wait();
    EXPECT_EQ(run.code(1 - dies), 75) << run.said_by_all();
    EXPECT_THAT(run.said(1 - dies), HasSubstr(fmt::format("node {} (host", dies))) << run.said_by_all();
    const std::string survivor = run.folder_of(1 - dies);
    EXPECT_FALSE(fs::exists(survivor + "/swap")) << run.said_by_all();
    EXPECT_FALSE(fs::exists(survivor + "/tidepool.run"));
  }
  EXPECT_EQ(test::train_on_nodes(c, {.launcher = GetParam(), .resume = "auto"}), undisturbed);
  EXPECT_FALSE(fs::exists(c.output.dir + "/swap"));
  EXPECT_FALSE(fs::exists(c.output.dir + "/node-1/swap"));
}

TEST_P(RunEnd, AStoppedNodeIsNamedInTime) {
  Config c = config("run");
  c.machine.peer_timeout_seconds = 4;
  c.train.max_steps = 40'000;
  NodeRun run(c, {.launcher = GetParam(), .others_live_on = true});
  ASSERT_TRUE(run.wait_for_steps(5)) << run.said_by_all();
  const pid_t stopped = run.pid(1);
  ::kill(stopped, SIGSTOP);
  while (run.code(0) == -1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(run.code(0), 75) << run.said_by_all();
  EXPECT_THAT(run.said(0), AllOf(HasSubstr("node 1 (host"), HasSubstr("has not answered for 4 s")));
  ::kill(stopped, SIGCONT);
  run.wait();
  EXPECT_TRUE(run.code(1) == 75 || run.code(1) == -1) << run.said_by_all();
}

// Only node 1's swap file meets the fault.
TEST_P(RunEnd, AFullDiskOfOneNodeEndsAllWithItsCause) {
  Config c = config("run");
  c.memory.home = HomePolicy::disk;
  c.memory.chunk_size = Bytes{40 * kib};
  c.memory.io = IoBackend::threads;
  c.train.max_steps = 40'000;
  const std::string log = dir_ / "failed";
  NodeRun run(c, {.launcher = GetParam(),
                  .others_live_on = true,
                  .environment = {"LD_PRELOAD=" + failing_calls_file(),
                                  "FAILING_UNDER=" + c.output.dir + "/node-1/swap", "FAILING_CALL=300",
                                  "FAILING_ERRNO=28", "FAILING_LOG=" + log}});
  run.wait();
  EXPECT_THAT(file_text(log), HasSubstr("write"));
  for (const u32 node : {0u, 1u}) {
    EXPECT_EQ(run.code(node), 6) << run.said_by_all();
    EXPECT_THAT(run.said(node), HasSubstr("No space left on device")) << node;
    EXPECT_FALSE(fs::exists(run.folder_of(node) + "/swap"));
  }
  EXPECT_THAT(run.said(0), HasSubstr("node 1 (host"));
}

// All nodes know the losses, so node 0 alone says why.
TEST_P(RunEnd, ALossThatIsNotFiniteEndsAll) {
  Config c = config("run");
  c.train.learning_rate = 1e6;
  c.train.max_grad_norm = 0;
  c.train.max_steps = 40'000;
  NodeRun run(c, {.launcher = GetParam()});
  EXPECT_EQ(run.wait(), 7) << run.said_by_all();
  EXPECT_EQ(run.code(0), 7);
  EXPECT_TRUE(run.ended_well(1)) << run.said_by_all();
  EXPECT_THAT(run.said(0), HasSubstr("loss nan"));
}

// memory.swap_dir need not exist: node 1 makes its folder in it whichever node comes first.
TEST_P(RunEnd, ASwapDirectoryOfTheirOwnIsMadeAndRemoved) {
  Config c = config("run");
  c.memory.home = HomePolicy::disk;
  c.memory.swap_dir = dir_ / "swap";
  test::train_on_nodes(c, {.nodes = 3, .launcher = GetParam()});
  EXPECT_FALSE(fs::exists(c.memory.swap_dir + "/node-1"));
  EXPECT_FALSE(fs::exists(c.memory.swap_dir + "/tidepool.swap"));
}

TEST(RunAlone, LoadsNoMpi) {
  const TrainDir dir;
  Config c = test::small_config(dir);
  c.train.max_steps = 40'000;
  ChildRun run(c);
  ASSERT_TRUE(run.wait_for_steps(3)) << run.output();
  const std::string maps = file_text(fmt::format("/proc/{}/maps", run.pid()));
  EXPECT_THAT(maps, HasSubstr("tidepool"));
  for (const char* library : {"libmpi", "libtidepool_", "libopen-", "libpmix", "libuc", "libfabric"})
    EXPECT_THAT(maps, Not(HasSubstr(library)));
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 75) << run.output();
}

}  // namespace tidepool::run_end_test
