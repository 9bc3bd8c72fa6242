// Nodes that were given different jobs train no step: all end, and name the node and the key. A node that
// cannot do its part is named by the others.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/support/file_text.h"
#include "tests/support/lora_fixture.h"
#include "tests/support/node_run.h"

namespace tidepool::run_refusal_test {

namespace fs = std::filesystem;
using test::file_text;
using test::NodeLauncher;
using test::NodeRun;
using test::TrainDir;
using ::testing::HasSubstr;
using ::testing::Not;

void skip_without(NodeLauncher launcher) {
  if (const std::string why = test::why_not_under(launcher); !why.empty()) GTEST_SKIP() << "SKIPPED: " << why;
}

Config small(const TrainDir& dir) {
  Config c = test::small_config(dir, "nodes");
  c.machine.threads = 1;
  c.machine.executor = "cpu";
  return c;
}

// `says`: what every node says, beside node 1's name.
void expect_refusal(const Config& config, const std::vector<std::string>& node_1, int code,
                    const std::string& says, u32 nodes = 2) {
  SCOPED_TRACE(node_1.empty() ? says : node_1[0]);
  NodeRun run(config, {.nodes = nodes,
                       .launcher = nodes == 2 ? NodeLauncher::open_mpi : NodeLauncher::mpich,
                       .others_live_on = true,
                       .overrides = {{1, node_1}}});
  run.wait();
  for (u32 node = 0; node < nodes; ++node) {
    EXPECT_EQ(run.code(node), code) << run.said_by_all();
    EXPECT_THAT(run.said(node), HasSubstr(says)) << node;
    if (node != 1) EXPECT_THAT(run.said(node), HasSubstr("node 1 (host")) << node;
    EXPECT_THAT(run.said(node), Not(HasSubstr("step 1/")));
    EXPECT_EQ(run.steps_logged(node), 0u);
  }
  EXPECT_FALSE(fs::exists(config.output.dir + "/swap"));
  EXPECT_FALSE(fs::exists(config.output.dir + "/checkpoint-4"));
}

TEST(RunRefusal, NamesTheKeyThatDiffers) {
  skip_without(NodeLauncher::open_mpi);
  if (::testing::Test::IsSkipped()) return;
  const TrainDir dir;
  const Config config = small(dir);
  expect_refusal(config, {"train.learning_rate=6e-3"}, 2, "train.learning_rate");
  expect_refusal(config, {"train.seed=7"}, 2, "train.seed");
  expect_refusal(config, {"train.per_device_train_batch_size=4"}, 2, "train.per_device_train_batch_size");
  expect_refusal(config, {"train.precision=bf16"}, 2, "train.precision");
  expect_refusal(config, {"model.n_layer=2"}, 2, "model.n_layer");
  expect_refusal(config, {"machine.executor=cpu:2"}, 2, "machine.executor");
  expect_refusal(config, {"output.save_steps=2"}, 2, "output.save_steps");
}

TEST(RunRefusal, NamesDataThatDiffer) {
  skip_without(NodeLauncher::mpich);
  if (::testing::Test::IsSkipped()) return;
  const TrainDir dir;
  std::ofstream(dir / "other.txt") << test::made_up_text(20'000) << "more\n";
  expect_refusal(small(dir), {"data.train=" + dir / "other.txt"}, 2, "data (fingerprint)", 3);
  expect_refusal(small(dir), {"data.shuffle=false"}, 2, "data");
  // Only the node itself knows the path.
  expect_refusal(small(dir), {"data.train=" + dir / "nowhere.txt"}, 4, "nowhere.txt", 3);
}

TEST(RunRefusal, NamesModelsThatDiffer) {
  skip_without(NodeLauncher::open_mpi);
  if (::testing::Test::IsSkipped()) return;
  const TrainDir dir;
  const std::string base = test::made_base(dir, Family::gpt2);
  Config other = test::small_config(dir, "other");
  other.train.max_steps = 1, other.train.seed = 9;
  ASSERT_TRUE(test::run(other));
  Config config = small(dir);
  config.model_directory = base;
  expect_refusal(config, {"model.directory=" + other.output.dir + "/checkpoint-1"}, 2, "model.directory");
}

// Weights that are damaged are not taken for weights that are absent.
TEST(RunRefusal, NamesTheNodeWhoseWeightsAreDamaged) {
  skip_without(NodeLauncher::open_mpi);
  if (::testing::Test::IsSkipped()) return;
  const TrainDir dir;
  Config config = small(dir);
  config.model_directory = test::made_base(dir, Family::gpt2);
  const fs::path damaged = dir / "damaged";
  fs::copy(config.model_directory, damaged);
  fs::resize_file(damaged / "model.safetensors", fs::file_size(damaged / "model.safetensors") - 1);
  expect_refusal(config, {"model.directory=" + damaged.string()}, 4, damaged / "model.safetensors");
  fs::remove(damaged / "model.safetensors");
  config.output.dir = dir / "absent";
  NodeRun run(config, {.overrides = {{1, {"model.directory=" + damaged.string()}}}});
  EXPECT_EQ(run.wait(), 0) << run.said_by_all();
}

TEST(RunRefusal, NamesTheNodeWhoseMemoryDoesNotFit) {
  skip_without(NodeLauncher::open_mpi);
  if (::testing::Test::IsSkipped()) return;
  const TrainDir dir;
  expect_refusal(small(dir), {"memory.device=200KiB"}, 3, "memory.device");
  expect_refusal(small(dir), {"memory.host=300KiB"}, 3, "memory.host", 3);
  expect_refusal(small(dir), {"memory.nodes=[\"1: memory.host=300KiB\"]"}, 3, "memory.host", 3);
}

}  // namespace tidepool::run_refusal_test
