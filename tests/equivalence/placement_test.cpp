// Offload never changes numbers: whole runs of the trainer under settings that together cover every value of
// each placement option, or with all cases every pair of values, are compared to the bit.
//
// Within a group (precision, accumulation, clipping) everything else may vary: homes, chunk size, sweeps,
// recompute, threads, disk backend, queue depth, budgets. Two sweeps need two micro-batches, so a group with
// accumulation 1 has one sweep only.
#include "tests/support/placement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <utility>

#include "tests/support/labelled_texts.h"
#include "tests/support/lora_fixture.h"
#include "tests/support/preference_pairs.h"

namespace tidepool::placement_test {

using test::all_pairs;
using test::check_bytes;
using test::covering_array;
using test::how_to_repeat;
using test::Numbers;
using test::numbers_of;
using test::placed;
using test::Row;
using test::TrainDir;

struct Group {
  Precision precision{};
  u32 accumulation = 1;
  bool clipping = true;
  u32 devices = 1;
  Family family = Family::gpt2;
  bool lora = false;
  AdapterForm experts = AdapterForm::none;  // adapters of experts and routers, beside those of attention
  Parallel parallel = Parallel::data;
  Optim optim = Optim::adamw_torch;
  ObjectiveType objective = ObjectiveType::next_token;
  LookupPolicy lookup = LookupPolicy::automatic;
  bool branches = false;  // experts beside the dense MLP
  bool tiled = false;     // sequences are cut into tiles
};

std::string group_name(const ::testing::TestParamInfo<Group>& info) {
  const Family family = info.param.family;
  constexpr const char* forms[] = {"", "single_experts_", "joined_experts_"};
  return fmt::format("{}{}{}{}_accumulation{}_{}{}", info.param.lora ? "lora_" : "",
                     forms[static_cast<u32>(info.param.experts)],
                     family == Family::gpt2 ? "" : fmt::format("{}_", name(family)),
                     name(info.param.precision), info.param.accumulation,
                     info.param.clipping ? "clipped" : "unclipped",
                     info.param.devices == 1 ? "" : fmt::format("_devices{}", info.param.devices)) +
         (info.param.parallel == Parallel::layers ? "_layers" : "") +
         (info.param.optim == Optim::adamw_torch ? "" : fmt::format("_{}", name(info.param.optim))) +
         (info.param.objective == ObjectiveType::next_token
              ? ""
              : fmt::format("_{}", name(info.param.objective))) +
         (info.param.lookup == LookupPolicy::on ? "_lookup" : "") + (info.param.branches ? "_branches" : "") +
         (info.param.tiled ? "_tiles" : "");
}

Group of_rule(Optim optim, Group group) {
  group.optim = optim;
  return group;
}

Group of_classifier(Group group) {
  group.objective = ObjectiveType::sequence_classification;
  return group;
}

Group of_objective(ObjectiveType type, Group group) {
  group.objective = type;
  return group;
}

// With adapters, so that the embedding is frozen. Homes on the device have no lookups.
Group of_lookup(Group group) {
  group.lookup = LookupPolicy::on;
  return group;
}

// Gemma 4 with experts beside the dense MLP.
Group of_branches(Group group) {
  group.family = Family::gemma4_text, group.branches = true;
  return group;
}

Group of_tiles(Group group) {
  group.tiled = true;
  return group;
}

Config group_config(const Group& group, const TrainDir& dir) {
  Config c = test::small_config(dir);
  c.memory.lookup = group.lookup;
  c.data.packing = false;  // one text: the run does not pack either, so budgets are tightened for its graph
  c.train.precision = group.precision;
  if (group.precision == Precision::fp16) test::make_fp16_that_overflows(c);
  c.train.gradient_accumulation_steps = group.accumulation;
  c.machine.executor = fmt::format("cpu:{}", group.devices);
  c.machine.parallel = group.parallel;
  c.train.max_grad_norm = group.clipping ? 0.5 : 0.0;
  c.train.optim = group.optim;
  if (optimizer(group.optim).base == Optim::lion) c.train.learning_rate /= 10;
  if (optimizer(group.optim).base == Optim::sgd) c.train.learning_rate *= 100;
  // Dropout draws from counters: its bits must not depend on recompute, sweeps or threads either.
  c.model = group.branches ? test::small_model_with_branches() : test::small_model(group.family);
  if (group.objective == ObjectiveType::sequence_classification) c = test::classifier(c, dir);
  // Experts and the tensors of a second rule begin at whole granules of the norm, so small ones have more
  // state than parameters.
  const bool two_rules = optimizer(group.optim).takes != nullptr;
  if (c.model.experts.count != 0 || two_rules)
    c.memory.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
  const double dropout = group.accumulation > 1 || group.precision != Precision::fp32 ? 0.1 : 0.0;
  c.model.attention.dropout = dropout;
  if (group.family == Family::gpt2) c.model.embedding_dropout = c.model.residual_dropout = dropout;
  if (group.lora) {
    const ScoreHead score = std::exchange(c.model.score, {});  // the base predicts tokens
    const std::string base = test::made_base(dir, c.model);
    c = test::lora_config(std::move(c), base);
    c.model.score = score;
    c.lora.dropout = group.experts == AdapterForm::none ? dropout : 0;
    if (group.experts == AdapterForm::joined) {
      c.lora.target_modules = {"o_proj"};
      c.lora.target_parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj", "mlp.gate.weight"};
      if (group.branches)
        c.lora.target_parameters = {"experts.gate_up_proj", "experts.down_proj", "router.proj.weight"};
      c.lora.expert_r = 2;
    }
    if (group.experts == AdapterForm::single) c.lora.target_modules = {"o_proj", "w1", "w3", "w2", "gate"};
  }
  if (group.objective == ObjectiveType::token_classification || group.objective == ObjectiveType::distill) {
    // A teacher with adapters beside it is the base; else the documents bring what it says.
    const bool taught = group.objective == ObjectiveType::distill && group.lora;
    c = test::preference(std::move(c), dir, group.objective, taught ? c.model_directory : "");
    c.train.neftune_noise_alpha = group.precision == Precision::bf16 ? 5 : 0;
  }
  if (objective(group.objective).units()) {
    const bool compares = may_compare(objective_rule({.type = group.objective}));
    if (compares && !group.lora) c.model_directory = test::made_base(dir, c.model);
    c = test::preference(std::move(c), dir, group.objective, compares ? c.model_directory : "");
  }
  if (group.tiled) c.train.tile_tokens = div_up(c.train.sequence_length, 7u);
  return c;
}

// If the kernel refuses io_uring (as in some containers), both levels use the thread pool.
Result<RunReport> run_placed(Config& config) {
  Result<RunReport> report = test::run(config);
  if (report || config.memory.io != IoBackend::io_uring ||
      report.error().message.find("io_uring") == std::string::npos)
    return report;
  std::printf("NOTE: the kernel refuses io_uring here; this setting runs on the thread pool\n");
  config.memory.io = IoBackend::threads;
  return test::run(config);
}

class Placement : public ::testing::TestWithParam<Group> {};

TEST_P(Placement, ChangesNoBit) {
  const TrainDir dir;
  std::optional<Numbers> first;
  std::optional<ExpertUse> experts;
  const Config common = group_config(GetParam(), dir);
  const bool with_experts = common.model.experts.count != 0;
  const std::vector<Row> rows = test::placement_rows(GetParam().accumulation, with_experts, GetParam().tiled);
  for (const Row& row : rows) {
    Config config = placed(row, common);
    SCOPED_TRACE(how_to_repeat(config));
    const auto report = run_placed(config);
    ASSERT_TRUE(report) << report.error().message;
    const Numbers numbers = numbers_of(*report);
    if (!first) first = numbers, experts = report->experts;
    EXPECT_EQ(numbers, *first);
    EXPECT_EQ(report->experts, experts);
    EXPECT_EQ(report->experts ? report->experts->dropped : 0, 0u);
    check_bytes(*report);
    std::filesystem::remove_all(config.output.dir);
  }
  EXPECT_GE(rows.size(), 4u);
  ASSERT_EQ(first->losses.size(), 4u);
  // Numbers must be equal, and the model must learn. For adapters, four steps change the loss less than the
  // noise of batches does; golden/lora_test checks what they learn. So it is for few texts with a label.
  if (!GetParam().lora) {
    if (GetParam().objective == ObjectiveType::next_token)
      EXPECT_LT(first->losses.back(), first->losses.front());
    EXPECT_EQ(first->skipped_steps, GetParam().precision == Precision::fp16 ? 2u : 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Groups, Placement,
    ::testing::Values(
        Group{Precision::fp32, 1, true}, Group{Precision::fp32, 1, false}, Group{Precision::fp32, 4, true},
        Group{Precision::fp32, 4, false}, Group{Precision::bf16, 1, true}, Group{Precision::bf16, 1, false},
        Group{Precision::bf16, 4, true}, Group{Precision::bf16, 4, false}, Group{Precision::fp32, 2, true, 2},
        Group{Precision::bf16, 1, true, 2}, Group{Precision::bf16, 2, false, 2},
        Group{Precision::fp16, 1, true}, Group{Precision::fp16, 4, false}, Group{Precision::fp16, 2, true, 2},
        Group{Precision::fp32, 2, true, 1, Family::llama}, Group{Precision::bf16, 1, true, 1, Family::llama},
        Group{Precision::bf16, 2, false, 1, Family::qwen3}, Group{Precision::fp32, 2, true, 2, Family::qwen3},
        Group{Precision::bf16, 2, true, 2, Family::phi3},
        Group{Precision::bf16, 2, true, 1, Family::gemma3_text}, of_tiles({Precision::fp32, 2, true}),
        of_tiles({Precision::bf16, 1, false, 1, Family::llama}),
        of_tiles({Precision::fp16, 4, true, 1, Family::qwen3}),
        of_tiles({Precision::fp32, 2, true, 2, Family::gemma3_text}),
        of_tiles({Precision::bf16, 4, true, 2, Family::llama, false, AdapterForm::none, Parallel::layers}),
        of_tiles({Precision::fp32, 2, true, 1, Family::qwen3, true}),
        of_tiles({Precision::bf16, 2, true, 1, Family::llama, false, AdapterForm::none, Parallel::data,
                  Optim::muon}),
        of_tiles({Precision::fp32, 2, true, 1, Family::qwen3_moe}),
        of_tiles({Precision::bf16, 1, false, 2, Family::mixtral}),
        of_tiles({Precision::bf16, 2, true, 2, Family::qwen3_moe, false, AdapterForm::none,
                  Parallel::layers}),
        of_tiles({Precision::fp16, 2, true, 1, Family::deepseek_v3}),
        of_tiles(of_branches({Precision::bf16, 2, true})),
        of_tiles({Precision::fp32, 2, true, 1, Family::qwen3_5_text}),
        of_tiles({Precision::bf16, 2, true, 1, Family::qwen3_next}),
        of_tiles({Precision::bf16, 1, false, 2, Family::nemotron_h}),
        of_tiles({Precision::fp32, 2, true, 1, Family::granitemoehybrid}),
        of_tiles({Precision::bf16, 2, true, 1, Family::gemma4_text}),
        of_tiles({Precision::fp16, 2, true, 2, Family::gemma4_text, false, AdapterForm::none,
                  Parallel::layers}),
        Group{Precision::fp32, 1, true, 1, Family::qwen3_moe},
        Group{Precision::bf16, 1, false, 1, Family::qwen3_moe},
        Group{Precision::bf16, 4, true, 1, Family::mixtral},
        Group{Precision::fp16, 4, false, 1, Family::qwen3_moe},
        Group{Precision::bf16, 2, true, 2, Family::qwen3_moe},
        Group{Precision::bf16, 2, true, 1, Family::deepseek_v3},
        Group{Precision::fp32, 2, true, 1, Family::qwen3_5_text},
        Group{Precision::bf16, 1, false, 2, Family::qwen3_5_text},
        Group{Precision::bf16, 2, true, 1, Family::qwen3_5_text, true},
        Group{Precision::fp16, 2, true, 2, Family::qwen3_5_text, false, AdapterForm::none, Parallel::layers},
        Group{Precision::fp16, 2, true, 1, Family::qwen3_next},
        Group{Precision::bf16, 2, true, 2, Family::qwen3_next, true},
        Group{Precision::bf16, 4, true, 1, Family::qwen3_5_moe_text},
        of_rule(Optim::adamw_8bit, {Precision::bf16, 2, true, 1, Family::qwen3_5_moe_text}),
        of_rule(Optim::muon, {Precision::bf16, 1, true, 1, Family::qwen3_5_text}),
        Group{Precision::bf16, 2, true, 1, Family::glm4_moe},
        Group{Precision::bf16, 2, true, 2, Family::minimax_m2},
        Group{Precision::bf16, 2, true, 1, Family::ministral3},
        Group{Precision::bf16, 2, true, 1, Family::olmo3},
        Group{Precision::fp16, 2, true, 2, Family::olmo2, true},
        Group{Precision::bf16, 1, true, 1, Family::exaone4},
        Group{Precision::bf16, 2, true, 2, Family::hunyuan_v1_dense},
        Group{Precision::bf16, 2, true, 1, Family::ernie4_5},
        Group{Precision::fp32, 2, true, 2, Family::granite},
        Group{Precision::bf16, 2, true, 1, Family::granite, true},
        Group{Precision::bf16, 2, true, 1, Family::arcee},
        Group{Precision::fp16, 2, true, 2, Family::arcee, true},
        Group{Precision::bf16, 2, true, 2, Family::gemma2},
        Group{Precision::fp32, 1, false, 1, Family::gemma2, true},
        Group{Precision::fp32, 2, true, 1, Family::nemotron_h},
        Group{Precision::bf16, 1, false, 2, Family::nemotron_h},
        Group{Precision::bf16, 2, true, 1, Family::nemotron_h, true},
        Group{Precision::fp16, 2, true, 2, Family::nemotron_h, false, AdapterForm::none, Parallel::layers},
        Group{Precision::fp32, 2, true, 2, Family::granitemoehybrid},
        Group{Precision::bf16, 4, true, 1, Family::granitemoehybrid},
        Group{Precision::bf16, 2, true, 2, Family::granitemoehybrid, true},
        of_rule(Optim::adamw_8bit, {Precision::bf16, 2, true, 1, Family::nemotron_h}),
        Group{Precision::bf16, 2, true, 1, Family::gemma4_text},
        Group{Precision::fp32, 1, false, 2, Family::gemma4_text},
        Group{Precision::fp16, 2, true, 2, Family::gemma4_text, false, AdapterForm::none, Parallel::layers},
        Group{Precision::bf16, 2, true, 2, Family::gemma4_text, true},
        of_rule(Optim::muon_bf16, {Precision::bf16, 2, true, 1, Family::gemma4_text}),
        of_branches({Precision::bf16, 2, true}), of_branches({Precision::fp32, 1, false, 2}),
        of_branches({Precision::fp16, 2, true, 2, Family::gemma4_text, false, AdapterForm::none,
                     Parallel::layers}),
        of_branches({Precision::bf16, 2, true, 1, Family::gemma4_text, true}),
        of_branches({Precision::fp32, 2, true, 2, Family::gemma4_text, true, AdapterForm::joined}),
        of_rule(Optim::adamw_8bit, of_branches({Precision::bf16, 2, true})),
        of_objective(ObjectiveType::dpo, {Precision::bf16, 2, true, 1, Family::llama}),
        of_objective(ObjectiveType::dpo, {Precision::fp32, 4, false, 2, Family::qwen3_moe}),
        of_objective(ObjectiveType::dpo, {Precision::bf16, 2, true, 2, Family::qwen3, true}),
        of_objective(ObjectiveType::dpo, {Precision::fp16, 2, true, 2, Family::llama, false,
                                          AdapterForm::none, Parallel::layers}),
        of_objective(ObjectiveType::reward, {Precision::bf16, 2, true, 2, Family::llama}),
        of_objective(ObjectiveType::reward, {Precision::fp32, 1, false, 1, Family::qwen3, true}),
        of_objective(ObjectiveType::orpo, {Precision::bf16, 4, true, 1, Family::qwen3_moe}),
        of_objective(ObjectiveType::simpo, {Precision::fp32, 2, true, 2, Family::gemma2}),
        of_objective(ObjectiveType::kto, {Precision::bf16, 2, true, 2, Family::llama}),
        of_objective(ObjectiveType::kto, {Precision::fp32, 2, true, 1, Family::qwen3_moe, true}),
        of_objective(ObjectiveType::grpo, {Precision::bf16, 2, true, 2, Family::qwen3}),
        of_objective(ObjectiveType::grpo,
                     {Precision::fp16, 2, true, 2, Family::llama, true, AdapterForm::none, Parallel::layers}),
        of_objective(ObjectiveType::rloo, {Precision::fp32, 4, true, 1, Family::qwen3_moe}),
        of_objective(ObjectiveType::token_classification, {Precision::bf16, 2, true, 2, Family::llama}),
        of_objective(ObjectiveType::token_classification, {Precision::fp32, 2, true, 1, Family::qwen3, true}),
        of_objective(ObjectiveType::distill, {Precision::bf16, 2, true, 2, Family::gemma2}),
        of_objective(ObjectiveType::distill, {Precision::fp32, 4, true, 1, Family::qwen3_moe, true}),
        of_objective(ObjectiveType::distill, {Precision::fp16, 2, true, 2, Family::llama, false,
                                              AdapterForm::none, Parallel::layers}),
        of_lookup({Precision::bf16, 2, true, 1, Family::llama, true}),
        of_lookup({Precision::fp32, 4, false, 2, Family::mistral, true}),
        of_lookup({Precision::bf16, 2, true, 2, Family::gemma4_text, true}),
        of_lookup({Precision::fp16, 2, true, 2, Family::qwen3_moe, true, AdapterForm::none,
                   Parallel::layers}),
        Group{Precision::bf16, 2, true, 1, Family::qwen3_moe, true},
        Group{Precision::bf16, 2, true, 1, Family::qwen3_moe, true, AdapterForm::joined},
        Group{Precision::fp16, 4, false, 1, Family::deepseek_v3, true, AdapterForm::joined},
        Group{Precision::fp32, 2, true, 2, Family::mixtral, true, AdapterForm::single},
        Group{Precision::fp32, 2, true, 1, Family::llama, true},
        Group{Precision::bf16, 1, false, 1, Family::qwen3, true},
        Group{Precision::fp16, 2, true, 1, Family::llama, true},
        Group{Precision::bf16, 2, true, 2, Family::gpt2, true},
        Group{Precision::fp32, 1, true, 1, Family::gpt2, true},
        Group{Precision::bf16, 2, true, 2, Family::gpt2, false, AdapterForm::none, Parallel::layers},
        Group{Precision::fp32, 1, false, 2, Family::llama, false, AdapterForm::none, Parallel::layers},
        Group{Precision::fp16, 2, true, 3, Family::qwen3_moe, false, AdapterForm::none, Parallel::layers},
        Group{Precision::bf16, 2, true, 2, Family::llama, true, AdapterForm::none, Parallel::layers},
        of_rule(Optim::lion, {Precision::bf16, 2, true}),
        of_rule(Optim::lion, {Precision::fp32, 1, false, 2}),
        of_rule(Optim::lion, {Precision::fp16, 4, false, 1, Family::qwen3_moe}),
        of_rule(Optim::lion, {Precision::fp32, 2, true, 1, Family::llama, true}),
        of_rule(Optim::lion,
                {Precision::bf16, 2, true, 2, Family::llama, false, AdapterForm::none, Parallel::layers}),
        of_rule(Optim::sgd, {Precision::fp16, 2, true, 2}), of_rule(Optim::sgd, {Precision::fp32, 4, false}),
        of_rule(Optim::sgd, {Precision::bf16, 2, true, 1, Family::mixtral}),
        of_rule(Optim::sgd, {Precision::bf16, 1, false, 1, Family::qwen3, true}),
        of_rule(Optim::sgd,
                {Precision::fp16, 2, true, 3, Family::qwen3_moe, false, AdapterForm::none, Parallel::layers}),
        of_rule(Optim::adamw_bf16, {Precision::bf16, 2, true}),
        of_rule(Optim::adamw_bf16, {Precision::fp16, 1, true, 2, Family::qwen3_moe}),
        of_rule(Optim::adamw_8bit, {Precision::fp32, 4, false}),
        of_rule(Optim::adamw_8bit, {Precision::bf16, 2, true, 2}),
        of_rule(Optim::adamw_8bit, {Precision::fp16, 4, true, 1, Family::qwen3_moe}),
        of_rule(Optim::adamw_8bit, {Precision::bf16, 1, true, 1, Family::mixtral}),
        of_rule(Optim::adamw_8bit, {Precision::bf16, 2, true, 2, Family::llama, true}),
        of_rule(Optim::adamw_8bit, {Precision::bf16, 2, true, 1, Family::deepseek_v3}),
        of_rule(Optim::adamw_8bit,
                {Precision::bf16, 2, true, 2, Family::llama, false, AdapterForm::none, Parallel::layers}),
        of_rule(Optim::lion_8bit, {Precision::bf16, 2, true, 1, Family::phi3}),
        of_rule(Optim::lion_bf16, {Precision::fp32, 1, false}),
        of_rule(Optim::sgd_8bit, {Precision::fp16, 2, true, 1, Family::gemma3_text}),
        of_rule(Optim::sgd_bf16, {Precision::bf16, 2, false, 2}),
        of_rule(Optim::muon, {Precision::fp32, 2, true}), of_rule(Optim::muon, {Precision::bf16, 4, false}),
        of_rule(Optim::muon, {Precision::fp16, 2, true, 1, Family::qwen3_moe}),
        of_rule(Optim::muon, {Precision::fp32, 1, true, 2, Family::llama}),
        of_rule(Optim::muon_bf16, {Precision::bf16, 2, true, 2, Family::phi3}),
        of_rule(Optim::muon, {Precision::bf16, 1, false, 1, Family::mixtral}),
        of_rule(Optim::muon, {Precision::fp32, 2, true, 1, Family::qwen3, true}),
        of_rule(Optim::muon_bf16, {Precision::fp16, 2, true, 1, Family::gemma3_text}),
        of_rule(Optim::muon,
                {Precision::bf16, 2, true, 2, Family::llama, false, AdapterForm::none, Parallel::layers}),
        of_rule(Optim::adafactor, {Precision::fp32, 2, true}),
        of_rule(Optim::adafactor, {Precision::bf16, 4, false, 2, Family::qwen3}),
        of_rule(Optim::adafactor, {Precision::fp16, 2, true, 1, Family::qwen3_moe}),
        of_rule(Optim::adafactor, {Precision::bf16, 1, false, 1, Family::mixtral}),
        of_rule(Optim::adafactor, {Precision::bf16, 2, true, 1, Family::llama, true}),
        of_rule(Optim::adafactor,
                {Precision::fp16, 2, true, 2, Family::llama, false, AdapterForm::none, Parallel::layers}),
        of_classifier({Precision::fp32, 2, true, 2, Family::llama}),
        of_classifier({Precision::bf16, 4, false, 1, Family::gpt2}),
        of_classifier({Precision::fp16, 2, true, 1, Family::qwen3_moe}),
        of_classifier({Precision::bf16, 2, true, 1, Family::qwen3, true}),
        of_classifier({Precision::bf16, 2, true, 2, Family::llama, false, AdapterForm::none,
                       Parallel::layers})),
    group_name);

TEST(Pairwise, CoversEveryPair) {
  const std::vector<u32> levels = {4, 3, 2, 2, 3, 2, 2, 2};
  std::set<test::Pair> missing = all_pairs(levels);
  const auto rows = covering_array(levels);
  for (const Row& row : rows)
    for (const test::Pair& pair : test::pairs_of(row)) missing.erase(pair);
  EXPECT_TRUE(missing.empty());
  EXPECT_LE(rows.size(), 20u);  // 12 is the lower bound: 4 homes x 3 chunk sizes
  const auto fewer = test::rows_with_each_value(rows, 3);
  std::set<std::pair<u64, u32>> values;
  for (const Row& row : fewer)
    for (u64 factor = 0; factor < row.size(); ++factor) values.emplace(factor, row[factor]);
  EXPECT_EQ(values.size(), 20u);  // the sum of levels
  EXPECT_LE(fewer.size(), 8u);
}

}  // namespace tidepool::placement_test
