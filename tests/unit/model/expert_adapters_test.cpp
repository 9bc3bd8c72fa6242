// Adapters beside experts and routers: which there are, where their tensors lie, and refused targets and
// files.
#include "tidepool/expert_adapters.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "huggingface/adapters/lora_merge.h"
#include "huggingface/weights/expert_files.h"
#include "kernels/experts/expert_range.h"
#include "kernels/gradient/gradient.h"
#include "model/blocks.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/family_cases.h"
#include "tests/support/file_text.h"
#include "tests/support/model_directory.h"
#include "tests/support/places.h"
#include "tests/support/train_fixture.h"

namespace tidepool::expert_adapters_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> both = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};

Result<ModelGraph> build(Family family, const LoraConfig& lora, u32 experts_per_group = 0) {
  return build_model(test::small_model(family), Precision::fp32, {.sequences = 1, .tokens = 8},
                     Precision::fp32, lora, experts_per_group);
}
std::string fault_of(Family family, const LoraConfig& lora) {
  const auto graph = build(family, lora);
  return graph ? "no error" : graph.error().message;
}
std::vector<std::string> adapter_names(const ModelGraph& graph, u32 layer) {
  std::vector<std::string> out;
  const std::string prefix = fmt::format("base_model.model.model.layers.{}.", layer), end = ".lora_A.weight";
  for (const FileTensor& t : file_tensors(graph, form_of_files(graph)))
    if (t.name.starts_with(prefix) && t.name.ends_with(end))
      out.push_back(t.name.substr(prefix.size(), t.name.size() - prefix.size() - end.size()));
  return out;
}

// ---- targets

TEST(ExpertAdapterTargets, NameParametersByTheirEnds) {
  const auto names = [](Family family, std::vector<std::string> parameters, u32 layer) {
    return adapter_names(build(family, {.r = 2, .target_parameters = std::move(parameters)}).value(), layer);
  };
  EXPECT_THAT(names(Family::qwen3_moe, both, 0), ElementsAre("mlp.experts.base_layer", "mlp.experts"));
  EXPECT_THAT(names(Family::qwen3_moe, {"gate_up_proj"}, 0), ElementsAre("mlp.experts"));
  EXPECT_THAT(names(Family::mixtral, {"gate.weight"}, 2), ElementsAre("mlp.gate"));
  EXPECT_THAT(names(Family::gpt_oss, {"router.weight", "down_proj"}, 1),
              ElementsAre("mlp.router", "mlp.experts"));
  EXPECT_THAT(names(Family::gpt_oss, {"1.mlp.experts.down_proj"}, 1), ElementsAre("mlp.experts"));
  EXPECT_THAT(names(Family::gpt_oss, {"1.mlp.experts.down_proj"}, 0), ElementsAre());
}

TEST(ExpertAdapterTargets, NameModulesOfTransformers4) {
  const ModelGraph graph =
      build(Family::mixtral, {.r = 2, .target_modules = {"w1", "w2", "gate"}}, 3).value();
  const std::vector<std::string> names = adapter_names(graph, 0);
  EXPECT_EQ(names.size(), 1 + 2 * graph.config.experts.count);
  EXPECT_EQ(names[0], "block_sparse_moe.gate");
  EXPECT_EQ(names[1], "block_sparse_moe.experts.0.w1");
  EXPECT_EQ(names[2], "block_sparse_moe.experts.0.w2");
}

// gate_proj is then a name of dense and shared layers alone.
TEST(ExpertAdapterTargets, OfModulesAreThoseOfTransformers5BesideParameters) {
  const LoraConfig lora{.r = 2, .target_modules = {"gate_proj"}, .target_parameters = both};
  const ModelGraph graph = build(Family::deepseek_v3, lora).value();
  const u32 dense = graph.config.experts.dense_layers;
  ASSERT_GT(dense, 0u);
  EXPECT_THAT(adapter_names(graph, 0), ElementsAre("mlp.gate_proj"));
  EXPECT_THAT(adapter_names(graph, dense),
              ElementsAre("mlp.shared_experts.gate_proj", "mlp.experts.base_layer", "mlp.experts"));
}

TEST(ExpertAdapterTargets, SharedExpertsCanBeNamedAlone) {
  const LoraConfig lora{.r = 2, .target_modules = {"shared_experts.up_proj"}};
  const ModelGraph graph = build(Family::deepseek_v3, lora).value();
  EXPECT_THAT(adapter_names(graph, 0), ElementsAre());
  EXPECT_THAT(adapter_names(graph, graph.config.layers - 1), ElementsAre("mlp.shared_experts.up_proj"));
}

TEST(ExpertAdapterTargets, ThatNameNothingAreRefused) {
  EXPECT_THAT(fault_of(Family::qwen3_moe, {.r = 2, .target_modules = {"w1"}}),
              AllOf(HasSubstr("lora.target_modules: 'w1' is no linear layer of this model; there are q_proj"),
                    HasSubstr("gate, gate_proj, up_proj, down_proj")));
  EXPECT_THAT(
      fault_of(Family::qwen3_moe, {.r = 2, .target_parameters = {"mlp.experts.up_proj"}}),
      HasSubstr("lora.target_parameters: 'mlp.experts.up_proj' is no parameter of this model that can "
                "have an adapter; there are mlp.experts.gate_up_proj"));
  EXPECT_THAT(fault_of(Family::qwen3_moe, {.r = 2, .target_parameters = {"9.mlp.experts.down_proj"}}),
              HasSubstr("'9.mlp.experts.down_proj' is no parameter"));
  EXPECT_THAT(fault_of(Family::gpt_oss, {.r = 2, .target_modules = {"router"}}),
              HasSubstr("'router' is no linear layer"));
  EXPECT_THAT(
      fault_of(Family::qwen3_moe, {.r = 2, .target_modules = {"gate_proj"}, .target_parameters = both}),
      HasSubstr("'gate_proj' is no linear layer"));
  EXPECT_THAT(fault_of(Family::llama, {.r = 2, .target_parameters = both}),
              HasSubstr("is for models with experts, which this model is not"));
  EXPECT_THAT(fault_of(Family::qwen3_moe, {.r = 2, .target_modules = {"gate"}, .dropout = 0.1}),
              HasSubstr("lora.lora_dropout: is 0.1, but adapters of experts and routers have no dropout"));
  EXPECT_THAT(fault_of(Family::qwen3_moe, {.r = 2, .expert_r = 1}),
              HasSubstr("lora.expert_r: is for experts"));
}

// ---- windows

TEST(ExpertAdapterWindows, OfAGroupHaveItsExpertsAtWholeGranules) {
  const LoraConfig lora{.r = 4, .target_parameters = both, .expert_r = 3};
  const ModelGraph graph = build(Family::qwen3_moe, lora, 3).value();
  u32 windows = 0;
  for (const Block& block : graph.blocks) {
    if (block.kind != BlockKind::experts) continue;
    ASSERT_EQ(block.windows.size(), 2u);
    const Window& window = graph.windows[block.windows[1]];
    EXPECT_EQ(window.name, graph.windows[block.windows[0]].name + ".lora");
    EXPECT_TRUE(window.trainable && window.adapter);
    for (u64 t = 0; t < window.tensors.size(); t += 4) {
      EXPECT_EQ(window.tensors[t].window_offset, t / 4 * norm_granule_elements);
      EXPECT_THAT(window.tensors[t].shape, ElementsAre(3u, graph.config.width));
      EXPECT_THAT(window.tensors[t + 1].shape, ElementsAre(2 * graph.config.expert_inner(), 3u));
    }
    ++windows;
  }
  EXPECT_EQ(windows, 3 * graph.config.layers);  // 8 experts in groups of 3
}

TEST(ExpertAdapterWindows, GiveTheSameFilesInAnyGroups) {
  for (const LoraConfig& lora :
       {LoraConfig{.r = 2, .target_parameters = both},
        LoraConfig{.r = 2, .target_modules = {"gate_proj", "down_proj", "q_proj"}}}) {
    const auto list = [&](u32 group) {
      std::vector<std::pair<std::string, std::vector<u64>>> out;
      const ModelGraph graph = build(Family::qwen3_moe, lora, group).value();
      for (const FileTensor& t : file_tensors(graph, form_of_files(graph)))
        if (graph.windows[t.parts[0].window].adapter) out.emplace_back(t.name, t.shape);
      return out;
    };
    EXPECT_EQ(list(1), list(0));
    EXPECT_EQ(list(3), list(0));
  }
}

// Forward multiplies x A^T and then B^T. Backward without recompute has x A^T and dy B once, and a product
// for each of the gradients of A, B and x; recompute repeats what forward does for gate and up.
TEST(ExpertAdapterCosts, AreThoseOfTheirProducts) {
  const LoraConfig none{.r = 3, .target_modules = {"q_proj"}};
  LoraConfig all = none;
  all.target_parameters = both;
  const ModelGraph with = build(Family::qwen3_moe, all, 4).value(),
                   without = build(Family::qwen3_moe, none, 4).value();
  const ModelConfig& c = with.config;
  const u64 h = c.width, inner = c.expert_inner(), r = all.r;
  const u64 rows = routed_rows_expected(8, c.experts.chosen, 4, c.experts.count);
  const u64 gate_up_a = 2 * rows * r * h, gate_up_b = 2 * rows * r * 2 * inner, down_a = 2 * rows * r * inner,
            down_b = 2 * rows * r * h;
  for (u32 b = 0; b < with.blocks.size(); ++b) {
    if (with.blocks[b].kind != BlockKind::experts) continue;
    const Block &one = with.blocks[b], &other = without.blocks[b];
    EXPECT_EQ(one.forward_flops - other.forward_flops, gate_up_a + gate_up_b + down_a + down_b);
    EXPECT_EQ(one.backward_flops - other.backward_flops, 3 * (gate_up_a + down_a) + 2 * (gate_up_b + down_b));
    EXPECT_EQ(one.recompute_flops - other.recompute_flops, gate_up_a + gate_up_b);
  }
}

// ---- files that are not merged

class ExpertAdapterFiles : public ::testing::Test {
 protected:
  // RETURNS: the message of opening a copy of the adapter with one text replaced in its config, and some in
  // the header of its tensors by others as long.
  std::string message(const std::string& adapter, const std::string& base, const std::string& from = "",
                      const std::string& to = "", const std::string& name = "",
                      const std::string& other = "") {
    std::filesystem::remove_all(directory_);
    std::filesystem::copy(source_file("tests/golden/lora/") + adapter, directory_);
    replace("adapter_config.json", from, to);
    replace("adapter_model.safetensors", name, other);
    const auto merge = AdapterMerge::open(directory_, test::family_directory(base));
    return merge ? std::string() : merge.error().message;
  }
  void replace(const std::string& file, const std::string& from, const std::string& to) {
    if (from.empty()) return;
    std::string text = test::file_text(directory_ + "/" + file);
    ASSERT_NE(text.find(from), std::string::npos) << from;
    for (u64 at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
    test::write_file(directory_ + "/" + file, text);
  }

  test::ScratchDir scratch_;
  const std::string directory_ = scratch_ / "adapter";
};

TEST_F(ExpertAdapterFiles, WithWrongRanksOrExpertsAreRefusedByName) {
  EXPECT_EQ(message("qwen3_moe_parameters", "qwen3_moe_untied"), "");
  EXPECT_THAT(message("qwen3_moe_parameters", "qwen3_moe_untied", "\"rank_pattern\": {}",
                      "\"rank_pattern\": {\"experts.down_proj\": 5}"),
              AllOf(HasSubstr("mlp.experts.lora_A.weight is [16, 11]"), HasSubstr("need [40, 11]")));
  EXPECT_THAT(message("qwen3_moe_parameters", "qwen3_moe_tied_losses"),
              HasSubstr("and the model's config.json need"));
  EXPECT_THAT(
      message("qwen3_moe_singles", "qwen3_moe_joined", "", "", "experts.3.up_proj", "experts.7.up_proj"),
      HasSubstr("experts.7.up_proj.lora_A.weight is of expert 7, but the model has 4 experts"));
  EXPECT_THAT(
      message("qwen3_moe_singles", "qwen3_moe_joined", "", "", "experts.3.down_proj", "experts.3.nown_proj"),
      HasSubstr("belongs to no module"));
  EXPECT_THAT(message("qwen3_moe_parameters", "llama_untied_llama3"),
              HasSubstr("target_parameters: is for models with experts, which the base model is not"));
}

TEST_F(ExpertAdapterFiles, WithPatternsForOtherModulesAreRefused) {
  const auto with = [&](const std::string& patterns) {
    return message("qwen3_moe_parameters", "qwen3_moe_untied", "\"alpha_pattern\": {}",
                   "\"alpha_pattern\": {" + patterns + "}");
  };
  EXPECT_EQ(with(R"("experts.down_proj": 9)"), "");
  for (const char* other : {R"("q_proj": 9)", R"(".*": 9)", R"("0.mlp.experts.down_proj": 9)",
                            R"(".*weight|.*down_proj": 9)", R"("experts.down_proj": "9")"})
    EXPECT_THAT(with(other),
                HasSubstr("alpha_pattern: beside target_parameters, only patterns for these parameters"))
        << other;
  // A pattern that means no module of the adapter changes nothing, as in PEFT.
  EXPECT_EQ(message("qwen3_all", "qwen3_tied_head_dim", "\"alpha_pattern\": {}",
                    "\"alpha_pattern\": {\"experts.down_proj\": 9}"),
            "");
}

// PEFT ignores tensors without a target, and gives targets without tensors a new adapter.
TEST_F(ExpertAdapterFiles, WithoutATargetOrATensorAreRefused) {
  EXPECT_THAT(
      message("gpt_oss_ranks", "gpt_oss_untied", "\"mlp.router.weight\"", "\"mlp.experts.down_proj\""),
      HasSubstr("mlp.router.lora_A.weight belongs to no module"));
  EXPECT_THAT(
      message("gpt_oss_ranks", "gpt_oss_untied", "\"mlp.experts.gate_up_proj\"", "\"mlp.router.weight\""),
      HasSubstr("belongs to no module"));
  ASSERT_EQ(message("gpt_oss_one", "gpt_oss_tied_full", "\"1.mlp.experts.down_proj\"",
                    "\"1.mlp.experts.down_proj\", \"0.mlp.experts.down_proj\""),
            "");
  const auto merge = AdapterMerge::open(directory_, test::family_directory("gpt_oss_tied_full")).value();
  EXPECT_TRUE(merge->check("model.layers.1.mlp.experts.down_proj"));
  EXPECT_TRUE(merge->check("model.layers.0.mlp.experts.gate_up_proj"));
  EXPECT_THAT(merge->check("model.layers.0.mlp.experts.down_proj").error().message,
              HasSubstr("holds no tensor for base_model.model.model.layers.0.mlp.experts, which "));
}

// Published DeepSeek-V3 has an extra prediction module after its last layer. It is copied as it is.
TEST_F(ExpertAdapterFiles, LeaveExtraLayersAsTheyAre) {
  ASSERT_EQ(message("deepseek_v3_shared", "deepseek_v3_untied"), "");
  const auto merge = AdapterMerge::open(directory_, test::family_directory("deepseek_v3_untied")).value();
  for (const char* rest : {"self_attn.kv_b_proj.weight", "mlp.shared_experts.up_proj.weight",
                           "mlp.gate.weight", "mlp.experts.0.gate_proj.weight", "eh_proj.weight"}) {
    EXPECT_TRUE(merge->check(fmt::format("model.layers.3.{}", rest))) << rest;
    EXPECT_FALSE(merge->changes(fmt::format("model.layers.3.{}", rest))) << rest;
  }
  EXPECT_TRUE(merge->changes("model.layers.2.mlp.experts.0.gate_proj.weight"));
}

}  // namespace tidepool::expert_adapters_test
