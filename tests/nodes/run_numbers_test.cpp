// Nodes change no number: N nodes with one micro-batch each give the bits of one device that accumulates N,
// under both launchers, whatever memory each node has.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/support/lora_fixture.h"
#include "tests/support/node_run.h"

namespace tidepool::run_numbers_test {

using test::NodeLauncher;
using test::NodeRunOptions;
using test::Numbers;
using test::TrainDir;

struct Case {
  std::string name;
  Precision precision{};
  bool clipping = true;
  Family family = Family::gpt2;
  bool lora = false;
  bool packed = false;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Conversations of many lengths, of which a part is learned.
void write_documents(const std::string& path) {
  std::ofstream out(path);
  for (u32 document = 0; document < 400; ++document) {
    std::string ids, labels;
    const u32 tokens = 3 + document * 7 % 29;
    for (u32 t = 0; t < tokens; ++t) {
      const u32 id = (document * 37 + t * t * 11 + 5) % 256;
      ids += fmt::format("{}{}", t == 0 ? "" : ", ", id);
      labels += fmt::format("{}{}", t == 0 ? "" : ", ", t < tokens / 3 ? -100 : static_cast<i32>(id));
    }
    out << fmt::format("{{\"input_ids\": [{}], \"labels\": [{}]}}\n", ids, labels);
  }
}

Config case_config(const Case& c, const TrainDir& dir, const std::string& run) {
  Config config = test::small_config(dir, run);
  config.machine.threads = 1;
  config.machine.executor = "cpu";
  config.train.precision = c.precision;
  if (c.precision == Precision::fp16) test::make_fp16_that_overflows(config);
  config.train.max_grad_norm = c.clipping ? 0.5 : 0.0;
  config.model = test::small_model(c.family);
  if (c.family == Family::gpt2) config.model.residual_dropout = 0.1;
  config.memory.chunk_size = Bytes{40 * kib};
  config.train.eval_steps = 2;
  if (config.model.experts.count != 0)
    config.memory.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
  if (c.lora) {
    config = test::lora_config(std::move(config), test::made_base(dir, c.family));
    config.lora.dropout = 0.1;
    config.memory.lookup = LookupPolicy::on;  // of families whose embedding is not the head's matrix
  }
  if (c.packed) {
    config.data.train = {dir / "documents.jsonl"};
    write_documents(config.data.train[0]);
  }
  return config;
}

Numbers accumulated(Config config, u32 count) {
  config.output.dir += fmt::format("-accumulated-{}", count);
  config.train.gradient_accumulation_steps *= count;
  return test::train_numbers(config);
}

constexpr NodeLauncher launchers[] = {NodeLauncher::open_mpi, NodeLauncher::mpich};

void skip_without_launchers() {
  for (const NodeLauncher launcher : launchers)
    if (const std::string why = test::why_not_under(launcher); !why.empty())
      GTEST_SKIP() << "SKIPPED: " << why;
}

class RunNumbers : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { skip_without_launchers(); }
};

TEST_P(RunNumbers, OfNodesAreThoseOfOneDeviceThatAccumulates) {
  const TrainDir dir;
  const Config config = case_config(GetParam(), dir, "nodes");
  Config four = config;
  four.output.dir = dir / "four";
  EXPECT_EQ(test::train_on_nodes(config, {.nodes = 2, .launcher = NodeLauncher::open_mpi}),
            accumulated(config, 2));
  EXPECT_EQ(test::train_on_nodes(four, {.nodes = 4, .launcher = NodeLauncher::mpich}), accumulated(four, 4));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, RunNumbers,
    ::testing::Values(
        Case{.name = "fp32Clipped", .precision = Precision::fp32},
        Case{.name = "fp32Unclipped", .precision = Precision::fp32, .clipping = false},
        Case{.name = "bf16Clipped", .precision = Precision::bf16},
        Case{.name = "bf16Unclipped", .precision = Precision::bf16, .clipping = false},
        Case{.name = "fp16Clipped", .precision = Precision::fp16},
        Case{.name = "fp16Unclipped", .precision = Precision::fp16, .clipping = false},
        Case{.name = "Lora", .precision = Precision::bf16, .family = Family::qwen3, .lora = true},
        Case{.name = "PackedClipped", .precision = Precision::bf16, .family = Family::qwen3, .packed = true},
        Case{.name = "PackedLora", .clipping = false, .family = Family::llama, .lora = true, .packed = true},
        Case{.name = "Qwen3Moe", .precision = Precision::bf16, .family = Family::qwen3_moe},
        Case{.name = "PackedQwen3Moe", .family = Family::qwen3_moe, .packed = true},
        Case{.name = "GptOss", .clipping = false, .family = Family::gpt_oss},
        Case{.name = "DeepseekV3", .precision = Precision::bf16, .family = Family::deepseek_v3},
        Case{.name = "PackedQwen35",
             .precision = Precision::bf16,
             .family = Family::qwen3_5_text,
             .packed = true},
        Case{.name = "Qwen3Next", .precision = Precision::bf16, .family = Family::qwen3_next},
        Case{.name = "NemotronH", .precision = Precision::bf16, .family = Family::nemotron_h},
        Case{.name = "Gemma4", .precision = Precision::bf16, .family = Family::gemma4_text},
        Case{.name = "LoraGemma4", .precision = Precision::bf16, .family = Family::gemma4_text, .lora = true}),
    [](const auto& info) { return info.param.name; });

TEST(RunNumbersOfNodes, AreAlikeUnderBothLaunchers) {
  skip_without_launchers();
  if (IsSkipped()) return;
  const TrainDir dir;
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    Config config = case_config({.precision = precision}, dir, std::string(name(precision)));
    const Numbers numbers = test::train_on_nodes(config, {.launcher = NodeLauncher::open_mpi});
    config.output.dir += "-again";
    EXPECT_EQ(test::train_on_nodes(config, {.launcher = NodeLauncher::mpich}), numbers);
  }
}

// A node sums the micro-batches of each step before the nodes' sums are added, as a device does.
TEST(RunNumbersOfNodes, ThatAccumulateAreThoseOfDevicesThatDo) {
  skip_without_launchers();
  if (IsSkipped()) return;
  const TrainDir dir;
  Config config = case_config({.precision = Precision::bf16}, dir, "nodes");
  config.train.gradient_accumulation_steps = 2;
  Config one = config;
  one.output.dir = dir / "one";
  one.machine.executor = "cpu:2";
  EXPECT_EQ(test::train_on_nodes(config, {}), test::train_numbers(one));
}

// They may differ from those of as many devices in one process, but not from each other.
TEST(RunNumbersOfNodes, WithTwoDevicesEachAreAlikeUnderBothLaunchers) {
  skip_without_launchers();
  if (IsSkipped()) return;
  const TrainDir dir;
  Config config = case_config({.precision = Precision::bf16}, dir, "nodes");
  config.machine.executor = "cpu:2";
  const Numbers numbers = test::train_on_nodes(config, {});
  config.output.dir = dir / "again";
  config.memory.home = HomePolicy::disk;
  EXPECT_EQ(test::train_on_nodes(config, {.launcher = NodeLauncher::mpich}), numbers);
}

}  // namespace tidepool::run_numbers_test
