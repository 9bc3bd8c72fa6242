// Memory of nodes changes no number: homes, chunk sizes, sweeps, threads and budgets, which may differ
// between the nodes.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "objectives/objective.h"
#include "optimizers/optimizer.h"
#include "tests/support/lora_fixture.h"
#include "tests/support/node_run.h"
#include "tests/support/preference_pairs.h"

namespace tidepool::run_placement_test {

using test::NodeLauncher;
using test::Numbers;
using test::TrainDir;
using Words = std::vector<std::string>;

// Both nodes get the first words, node 1 also gets the second.
struct Setting {
  std::string name;
  Words all, node_1;
  bool clipping = true;
  Optim optim = Optim::adamw_torch;
  ObjectiveType objective = ObjectiveType::next_token;
  u32 tile_tokens = 0;  // 0: the default
};

Setting of_objective(ObjectiveType type, Setting setting) {
  setting.objective = type;
  return setting;
}

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

class RunPlacement : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (const std::string why = test::why_not_under(launcher()); !why.empty())
      GTEST_SKIP() << "SKIPPED: " << why;
  }
  static NodeLauncher launcher() {
    return GetParam().name.size() % 2 == 0 ? NodeLauncher::open_mpi : NodeLauncher::mpich;
  }
};

Config placement_config(const TrainDir& dir, const std::string& run) {
  Config c = test::small_config(dir, run);
  c.machine.threads = 1;
  c.machine.executor = "cpu";
  c.train.precision = Precision::bf16;
  c.train.gradient_accumulation_steps = 2;
  c.model.residual_dropout = 0.1;
  c.train.eval_steps = 2;
  return c;
}

// Trains by the objective. Nodes make the reference's log-probabilities, or a teacher's distributions, by
// themselves.
void set_objective(Config& c, const TrainDir& dir, ObjectiveType type) {
  c.model = test::small_model(Family::llama);
  const ObjectiveRule rule = objective_rule({.type = type});
  const bool compares = may_compare(rule) || rule.divergence.on();
  if (compares) c.model_directory = test::made_base(dir, c.model);
  c = test::preference(std::move(c), dir, type, compares ? c.model_directory : "");
}

TEST_P(RunPlacement, ChangesNoNumberOfNodes) {
  const TrainDir dir;
  Config nodes = placement_config(dir, "nodes"), one = placement_config(dir, "one");
  nodes.train.max_grad_norm = one.train.max_grad_norm = GetParam().clipping ? 0.5 : 0.0;
  nodes.train.optim = one.train.optim = GetParam().optim;
  nodes.train.tile_tokens = one.train.tile_tokens = GetParam().tile_tokens;
  one.machine.executor = "cpu:2";
  if (optimizer(GetParam().optim).unit == UnitKind::tensor)  // units are padded
    one.memory.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
  const Setting& setting = GetParam();
  if (setting.objective != ObjectiveType::next_token)
    for (Config* c : {&nodes, &one}) set_objective(*c, dir, setting.objective);
  test::NodeRunOptions options{.launcher = launcher()};
  options.overrides[0] = options.overrides[1] = setting.all;
  options.overrides[1].insert(options.overrides[1].end(), setting.node_1.begin(), setting.node_1.end());
  EXPECT_EQ(test::train_on_nodes(nodes, options), test::train_numbers(one));
}

INSTANTIATE_TEST_SUITE_P(
    Settings, RunPlacement,
    ::testing::Values(
        Setting{"Host", {"memory.home=host", "memory.chunk_size=40KiB"}, {}},
        Setting{"Disk", {"memory.home=disk", "memory.chunk_size=40KiB"}, {}},
        Setting{"Mixed", {"memory.home=mixed", "memory.chunk_size=8KiB", "memory.io=threads"}, {}},
        Setting{"Threads", {"memory.home=mixed", "machine.threads=3"}, {}},
        Setting{"TwoSweeps", {"memory.sweeps=2", "memory.home=disk", "memory.chunk_size=40KiB"}, {}},
        Setting{"Unclipped", {"memory.home=disk", "train.recompute=recompute"}, {}, false},
        Setting{"TightHost", {"memory.device=3MiB"}, {"memory.host=4MiB"}},
        Setting{"TightDevice", {"memory.host=6MiB"}, {"memory.device=2MiB"}},
        Setting{"OtherHome", {"memory.home=host"}, {"memory.home=disk", "machine.threads=2"}},
        Setting{
            "OtherChunks", {"memory.chunk_size=40KiB"}, {"memory.chunk_size=8KiB", "memory.queue_depth=1"}},
        Setting{"SetByNode",
                {"memory.nodes=[\"1: memory.host=4MiB machine.threads=2\"]", "memory.device=3MiB"},
                {}},
        Setting{"OtherSweeps", {}, {"memory.sweeps=2", "memory.device=3MiB"}},
        Setting{"LionOnDisk", {"memory.home=disk", "memory.chunk_size=40KiB"}, {}, true, Optim::lion},
        Setting{"SgdMixed", {"memory.home=mixed"}, {"memory.sweeps=2"}, false, Optim::sgd},
        Setting{"EightBitsOnDisk",
                {"memory.home=disk", "memory.chunk_size=40KiB"},
                {"memory.home=mixed"},
                true,
                Optim::adamw_8bit},
        Setting{"AdafactorOnDisk",
                {"memory.home=disk", "memory.device=16MiB", "memory.host=32MiB"},
                {"memory.home=mixed", "memory.device=24MiB", "memory.host=32MiB"},
                true,
                Optim::adafactor},
        Setting{.name = "Pieces",
                .all = {"memory.home=disk"},
                .node_1 = {"memory.piece_tokens=5"},
                .tile_tokens = 5},
        of_objective(ObjectiveType::dpo, {"DpoOnDisk", {"memory.home=disk", "memory.chunk_size=40KiB"}, {}}),
        of_objective(ObjectiveType::kto, {"KtoMixed", {"memory.home=mixed"}, {"memory.sweeps=2"}}),
        of_objective(ObjectiveType::reward, {"RewardInHost", {"memory.home=host"}, {}}),
        of_objective(ObjectiveType::grpo, {"GrpoMixed", {"memory.home=mixed"}, {"memory.home=disk"}}),
        of_objective(ObjectiveType::distill, {"DistillOnDisk", {"memory.home=disk"}, {"memory.home=mixed"}}),
        of_objective(ObjectiveType::token_classification, {"TokenLabels", {"memory.home=mixed"}, {}}),
        Setting{"NoDisk", {"memory.home=auto"}, {"memory.disk=0", "memory.lookahead=3"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace tidepool::run_placement_test
