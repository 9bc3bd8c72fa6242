// A run of nodes that was stopped resumes on any number of nodes with the bits of an undisturbed run. Its
// checkpoints are those of one process.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "tests/support/file_text.h"
#include "tests/support/lora_fixture.h"
#include "tests/support/node_run.h"

namespace tidepool::run_resume_test {

namespace fs = std::filesystem;
using test::file_text;
using test::NodeLauncher;
using test::NodeRun;
using test::NodeRunOptions;
using test::Numbers;
using test::TrainDir;
using ::testing::HasSubstr;

class RunResume : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const NodeLauncher launcher : {NodeLauncher::open_mpi, NodeLauncher::mpich})
      if (const std::string why = test::why_not_under(launcher); !why.empty())
        GTEST_SKIP() << "SKIPPED: " << why;
  }
  // `micro_batches`: per node.
  Config config(const std::string& run, u32 micro_batches) const {
    Config c = test::small_config(dir_, run);
    c.machine.threads = 1;
    c.machine.executor = "cpu";
    c.train.gradient_accumulation_steps = micro_batches;
    c.train.precision = Precision::bf16;
    c.train.max_steps = 90;
    c.train.eval_steps = 25;
    c.train.max_grad_norm = 0.5;
    c.model.residual_dropout = 0.1;
    c.memory.home = HomePolicy::mixed;
    c.memory.chunk_size = Bytes{40 * kib};
    c.output.save_steps = 20;
    return c;
  }
  // Runs until some steps are logged, and sends a signal to a node. RETURNS: all that was said.
  std::string stop(const Config& c, const NodeRunOptions& options, u64 steps, u32 node, int signal) const {
    NodeRun run(c, options);
    EXPECT_TRUE(run.wait_for_steps(steps)) << run.said_by_all();
    ::kill(run.pid(node), signal);
    EXPECT_EQ(run.wait(), 75) << run.said_by_all();
    EXPECT_EQ(run.code(0), 75) << run.said_by_all();
    for (u32 n = 1; n < options.nodes; ++n) EXPECT_TRUE(run.ended_well(n)) << run.said_by_all();
    EXPECT_THAT(run.said(0), HasSubstr("resume with --resume auto"));
    EXPECT_FALSE(fs::exists(c.output.dir + "/swap"));
    EXPECT_FALSE(fs::exists(c.output.dir + "/node-1/swap"));
    return run.said_by_all();
  }

  const TrainDir dir_;
};

// 2 and 4 nodes with one micro-batch each, and one process with all of them.
TEST_F(RunResume, OnAnyNumberOfNodesGivesTheSameBits) {
  for (const u32 nodes : {2u, 4u}) {
    SCOPED_TRACE(nodes);
    const Numbers undisturbed = test::train_numbers(config(fmt::format("whole-{}", nodes), nodes));
    Config c = config(fmt::format("stopped-{}", nodes), 1);
    stop(c, {.nodes = nodes}, 8, 0, SIGTERM);
    c.train.gradient_accumulation_steps = nodes;
    const auto stopped = test::run(c, {.resume = "auto", .stop_after = 50});
    ASSERT_FALSE(stopped);
    ASSERT_EQ(stopped.error().kind, ErrorKind::interrupted) << stopped.error().message;
    c.train.gradient_accumulation_steps = 1;
    stop(c, {.nodes = nodes, .launcher = NodeLauncher::mpich, .resume = "auto"}, 60, 1, SIGTERM);
    EXPECT_EQ(test::train_on_nodes(c, {.nodes = nodes, .resume = "auto"}), undisturbed);
  }
}

// Half the nodes with twice the micro-batches each sum in another order: as two devices that accumulate two.
TEST_F(RunResume, OnHalfTheNodesGivesTheBitsOfAsManyDevices) {
  Config c = config("stopped", 1);
  stop(c, {.nodes = 4}, 8, 3, SIGTERM);
  c.train.gradient_accumulation_steps = 2;
  Config devices = c;
  devices.output.dir = dir_ / "devices";
  devices.machine.executor = "cpu:2";
  fs::copy(c.output.dir, devices.output.dir, fs::copy_options::recursive);
  EXPECT_EQ(test::train_on_nodes(c, {.nodes = 2, .launcher = NodeLauncher::mpich, .resume = "auto"}),
            test::train_numbers(devices, {.resume = "auto"}));
}

TEST_F(RunResume, OfAnAdapterGivesTheSameBits) {
  const std::string base = test::made_base(dir_, Family::gpt2);
  const Numbers undisturbed = test::train_numbers(test::lora_config(config("whole", 2), base));
  const Config c = test::lora_config(config("stopped", 1), base);
  stop(c, {.nodes = 2, .launcher = NodeLauncher::mpich}, 8, 1, SIGTERM);
  EXPECT_EQ(test::train_on_nodes(c, {.nodes = 2, .resume = "auto"}), undisturbed);
}

TEST_F(RunResume, OfAFinishedRunHasNothingToDo) {
  Config c = config("done", 1);
  c.train.max_steps = 4;
  test::train_on_nodes(c, {});
  NodeRun again(c, {.resume = "auto"});
  EXPECT_EQ(again.wait(), 0) << again.said_by_all();
  EXPECT_THAT(again.said(0), HasSubstr("nothing to do: step 4 of 4"));
}

TEST_F(RunResume, OnFewerNodesClearsWhatAKilledNodeLeft) {
  Config c = config("killed", 1);
  c.memory.home = HomePolicy::disk;
  {
    NodeRun run(c, {.others_live_on = true});
    ASSERT_TRUE(run.wait_for_steps(30)) << run.said_by_all();
    ::kill(run.pid(1), SIGKILL);
    run.wait();
  }
  EXPECT_TRUE(fs::exists(c.output.dir + "/node-1/swap"));
  c.train.gradient_accumulation_steps = 2;
  test::train_numbers(c, {.resume = "auto"});
  EXPECT_FALSE(fs::exists(c.output.dir + "/node-1/swap"));
  EXPECT_FALSE(fs::exists(c.output.dir + "/node-1/tidepool.run"));
}

std::set<std::string> files_of(const std::string& folder) {
  std::set<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) out.insert(fs::relative(entry.path(), folder));
  return out;
}

// RETURNS: the file without the training time, and without the hashes over it.
std::string text_without_times(const std::string& path) {
  if (!path.ends_with(".json")) return file_text(path);
  std::istringstream lines(file_text(path));
  std::string out;
  for (std::string line; std::getline(lines, line);)
    if (line.find("\"seconds\"") == std::string::npos &&
        line.find("\"trainer_state.json\"") == std::string::npos &&
        line.find("xxh3_of_the_lines_above") == std::string::npos)
      out += line + "\n";
  return out;
}

TEST_F(RunResume, FindsCheckpointsEqualToThoseOfOneProcess) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    SCOPED_TRACE(name(precision));
    const auto made = [&](const std::string& run) {
      Config c = config(std::string(name(precision)) + run, 1);
      c.train.precision = precision;
      c.train.max_steps = 5;
      c.output.save_steps = 3;
      return c;
    };
    Config one = made("one"), two = made("two");
    test::train_on_nodes(two, {});
    one.machine.executor = "cpu:2";
    test::train_numbers(one);
    for (const char* checkpoint : {"/checkpoint-3", "/checkpoint-5"}) {
      const std::string a = one.output.dir + checkpoint, b = two.output.dir + checkpoint;
      ASSERT_EQ(files_of(a), files_of(b));
      EXPECT_GT(files_of(a).size(), 2u);
      for (const std::string& file : files_of(a)) {
        const std::string expected = text_without_times(a + "/" + file);
        EXPECT_FALSE(expected.empty());
        EXPECT_TRUE(text_without_times(b + "/" + file) == expected) << b << "/" << file;
      }
    }
  }
}

}  // namespace tidepool::run_resume_test
