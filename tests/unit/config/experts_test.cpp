// Families with experts: their keys in configs and in config.json, as transformers 4 and 5 write them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "config/config.h"
#include "config/schema.h"
#include "config_files/load_config.h"
#include "huggingface/directory/config_difference.h"
#include "huggingface/directory/hf_config.h"

namespace tidepool::experts_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Result<ModelConfig> parse(std::string_view text) {
  return parse_hf_config(text, ErrorKind::bad_input, "config.json");
}
ModelConfig parsed(std::string_view text) {
  const auto model = parse(text);
  EXPECT_TRUE(model) << model.error().message;
  return model ? *model : ModelConfig();
}
std::string fault_of(std::string_view text) {
  const auto model = parse(text);
  return model ? "no error" : model.error().message;
}

std::string json_of(std::string_view family, std::string_view more) {
  return fmt::format(R"({{"model_type": "{}", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96,
                          "num_hidden_layers": 4, "num_attention_heads": 4{}}})",
                     family, more);
}
std::string qwen3_moe(std::string_view more) {
  return json_of("qwen3_moe",
                 fmt::format(R"(, "num_experts_per_tok": 2, "moe_intermediate_size": 24{})", more));
}
std::string mixtral(std::string_view more) {
  return json_of("mixtral", fmt::format(R"(, "num_local_experts": 6, "num_experts_per_tok": 2{})", more));
}
std::string gpt_oss(std::string_view more) {
  return json_of("gpt_oss", fmt::format(R"(, "num_local_experts": 6, "num_experts_per_tok": 2,
                                            "num_key_value_heads": 2{})",
                                        more));
}
std::string deepseek(std::string_view more) {
  return json_of(
      "deepseek_v3",
      fmt::format(
          R"(, "q_lora_rank": null, "moe_intermediate_size": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 6,
                                  "qk_rope_head_dim": 4, "v_head_dim": 10{})",
          more));
}
constexpr std::string_view groups =
    R"(, "n_routed_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 2,
    "n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5, "first_k_dense_replace": 1)";
constexpr std::string_view plain_rope = R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4})";
constexpr std::string_view yarn = R"("factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
    "original_max_position_embeddings": 4096)";

// Checks that the text written for a model makes the same model.
void expect_round_trip(const ModelConfig& model) {
  const std::string text = hf_config_text(model, Precision::bf16);
  const ModelConfig again = parsed(text);
  EXPECT_EQ(hf_config_text(again, Precision::bf16), text);
  EXPECT_EQ(config_difference(again, model), "");
}

TEST(ExpertConfig, OfQwen3MoeIsReadAsTransformersDoes) {
  const ModelConfig c = parsed(qwen3_moe(R"(, "num_experts": 8)"));
  EXPECT_EQ(c.experts.count, 8u);
  EXPECT_EQ(c.experts.chosen, 2u);
  EXPECT_EQ(c.expert_inner(), 24u);
  EXPECT_FALSE(c.experts.normalise);
  EXPECT_FALSE(c.experts.balance);
  EXPECT_EQ(c.experts.balance_factor, 1e-3);
  EXPECT_EQ(c.kv_heads(), 4u);
  EXPECT_EQ(c.head_size(), 16u);
  EXPECT_EQ(c.window_of_any_layer(), 0u);
  EXPECT_EQ(c.qk_norm(), QkNormKind::heads);
  for (u32 layer = 0; layer < 4; ++layer) EXPECT_TRUE(c.has_experts(layer)) << layer;
  // Published configs have this; the window has no effect without the switch.
  EXPECT_EQ(parsed(qwen3_moe(R"(, "num_experts": 8, "max_window_layers": 48, "sliding_window": 4096,
                                  "use_sliding_window": false)"))
                .window_of_any_layer(),
            0u);
  const ModelConfig window =
      parsed(qwen3_moe(R"(, "num_experts": 8, "max_window_layers": 2, "use_sliding_window": true)"));
  EXPECT_EQ(window.attention_window(0), 4096u);
  expect_round_trip(window);
}

TEST(ExpertConfig, DenseLayersOfQwen3MoeFollowStepAndList) {
  const ModelConfig c =
      parsed(qwen3_moe(R"(, "num_experts": 8, "decoder_sparse_step": 2, "mlp_only_layers": [3],
                            "output_router_logits": true, "router_aux_loss_coef": 0.25, "norm_topk_prob": true)"));
  EXPECT_FALSE(c.has_experts(0));
  EXPECT_TRUE(c.has_experts(1));
  EXPECT_FALSE(c.has_experts(2));
  EXPECT_FALSE(c.has_experts(3));
  EXPECT_TRUE(c.experts.balance && c.experts.normalise);
  expect_round_trip(c);
  const std::string text = hf_config_text(c, Precision::bf16);
  EXPECT_THAT(text, HasSubstr(R"("mlp_only_layers": [)"));
  EXPECT_THAT(text, AllOf(HasSubstr(R"("num_experts": 8)"), Not(HasSubstr("num_local_experts"))));
}

// transformers 5 writes num_local_experts for qwen3_moe, too.
TEST(ExpertConfig, BothNamesOfTheirNumberAreRead) {
  EXPECT_EQ(parsed(qwen3_moe(R"(, "num_local_experts": 8)")), parsed(qwen3_moe(R"(, "num_experts": 8)")));
  EXPECT_EQ(parsed(qwen3_moe(R"(, "num_local_experts": 8, "num_experts": 8)")).experts.count, 8u);
  EXPECT_THAT(fault_of(qwen3_moe(R"(, "num_local_experts": 8, "num_experts": 6)")),
              HasSubstr("num_local_experts: is 8, but num_experts beside it is 6; keep"));
  EXPECT_THAT(fault_of(qwen3_moe(R"(, "n_routed_experts": 8)")),
              HasSubstr("n_routed_experts: is none of the keys of experts that Tidepool computes in "
                        "qwen3_moe models, such as "
                        "num_experts"));
  EXPECT_THAT(fault_of(qwen3_moe("")), HasSubstr("num_experts: is missing: fetch the file again"));
}

TEST(ExpertConfig, OfMixtralHasItsDefaults) {
  const ModelConfig c = parsed(mixtral(R"(, "router_jitter_noise": 0.0, "num_key_value_heads": 2)"));
  EXPECT_EQ(c.expert_inner(), 96u);
  EXPECT_TRUE(c.experts.normalise);
  EXPECT_EQ(c.attention.rope.theta, 1e6);
  EXPECT_EQ(c.norm_epsilon, 1e-5);
  EXPECT_EQ(c.window_of_any_layer(), 0u);
  EXPECT_EQ(parsed(mixtral(R"(, "sliding_window": 7, "num_key_value_heads": 2)")).attention_window(0), 7u);
  EXPECT_THAT(fault_of(mixtral(R"(, "router_jitter_noise": 0.01)")), HasSubstr("router_jitter_noise: 0"));
  expect_round_trip(c);
}

TEST(ExpertConfig, OfGptOssHasSinksWindowsAndYarn) {
  const ModelConfig published = parsed(gpt_oss(fmt::format(
      R"(, "rope_theta": 150000, "rope_scaling": {{"rope_type": "yarn", {}}}, "experts_per_token": 2,
          "initial_context_length": 4096, "swiglu_limit": 7.0, "router_aux_loss_coef": 0.9,
          "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"])",
      yarn)));
  EXPECT_TRUE(published.attention.bias);
  EXPECT_EQ(published.head_size(), 64u);
  EXPECT_EQ(published.attention_window(0), 128u);
  EXPECT_EQ(published.attention_window(1), 0u);
  EXPECT_FALSE(published.local_rope(0));
  EXPECT_EQ(published.attention.rope, (Rope{.type = RopeType::yarn,
                                            .theta = 150000,
                                            .factor = 32,
                                            .original_positions = 4096,
                                            .truncate = false}));
  EXPECT_EQ(published.experts.gate_limit, 7);
  expect_round_trip(published);
  const std::string text = hf_config_text(published, Precision::bf16);
  EXPECT_THAT(text, AllOf(Not(HasSubstr("sliding_window_pattern")), Not(HasSubstr("rope_local_base_freq")),
                          Not(HasSubstr(R"("full_attention": {)"))));
  EXPECT_EQ(parsed(gpt_oss(fmt::format(
                R"(, "rope_parameters": {{"rope_theta": 150000.0, "rope_type": "yarn", {}}},
                     "router_aux_loss_coef": 0.9)",
                yarn))),
            published);
  EXPECT_THAT(fault_of(gpt_oss("")), HasSubstr("rope_parameters: is missing"));
  const ModelConfig full = parsed(gpt_oss(fmt::format(
      R"({}, "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"])",
      plain_rope)));
  EXPECT_EQ(full.window_of_any_layer(), 0u);
  expect_round_trip(full);
}

TEST(ExpertConfig, OfDeepseekHasGroupsAndLatents) {
  const ModelConfig c = parsed(deepseek(fmt::format(
      R"({}, "num_key_value_heads": 4, "moe_layer_freq": 1, "scoring_func": "sigmoid",
          "topk_method": "noaux_tc", "ep_size": 1, "num_nextn_predict_layers": 1, "head_dim": 4, "qk_head_dim": 10,
          "rope_theta": 10000, "rope_scaling": {{"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
          "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"}})",
      groups)));
  EXPECT_EQ(c.experts.groups, 4u);
  EXPECT_EQ(c.experts.chosen_groups, 2u);
  EXPECT_EQ(c.experts.scale, 2.5);
  EXPECT_EQ(c.shared_inner(), 48u);
  EXPECT_TRUE(c.experts.normalise);
  EXPECT_FALSE(c.has_experts(0));
  EXPECT_TRUE(c.has_experts(1));
  EXPECT_EQ(
      c.latent,
      (LatentAttention{.kv_lora_rank = 16, .qk_nope_head_dim = 6, .qk_rope_head_dim = 4, .v_head_dim = 10}));
  EXPECT_EQ(c.head_size(), 10u);
  EXPECT_EQ(c.rotary_size(), 4u);
  EXPECT_EQ(c.attention.rope.rotary_factor(), 1);
  const double growth = 0.1 * std::log(40) + 1;
  EXPECT_DOUBLE_EQ(c.attention_scale(), growth * growth / std::sqrt(10));
  expect_round_trip(c);
  ModelConfig with_queries = c;
  with_queries.latent.q_lora_rank = 12, with_queries.latent.interleaved = false;
  expect_round_trip(with_queries);
  EXPECT_THAT(config_difference(c, with_queries),
              AllOf(HasSubstr("q_lora_rank is 0 there and 12 here"), HasSubstr("rope_interleave")));
}

TEST(ExpertConfig, ImpossibleSizesAreRefusedByName) {
  const auto qwen3 = [](std::string_view more) {
    return fault_of(qwen3_moe(fmt::format(R"(, "num_experts": 8{})", more)));
  };
  const auto few = [](u32 count, u32 chosen) {
    return fault_of(json_of("mixtral", fmt::format(R"(, "num_key_value_heads": 2, "num_local_experts": {},
                                                       "num_experts_per_tok": {})",
                                                   count, chosen)));
  };
  EXPECT_THAT(few(2, 3),
              HasSubstr("num_experts_per_tok: 3 is more than the 2 experts of model.num_local_experts"));
  EXPECT_THAT(few(2, 0), HasSubstr("num_experts_per_tok: '0' is out of range"));
  EXPECT_THAT(few(0, 1), HasSubstr("num_local_experts: '0' is out of range"));
  ModelConfig none = default_model(Family::mixtral);
  none.experts.chosen = 0;
  EXPECT_EQ(check_model(none).value().key, "num_experts_per_tok");
  EXPECT_THAT(qwen3(R"(, "mlp_only_layers": [4])"), HasSubstr("mlp_only_layers: 4 is no layer"));
  EXPECT_THAT(qwen3(R"(, "mlp_only_layers": [0, 1, 2, 3])"), HasSubstr("none of the 4 layers"));
  EXPECT_THAT(qwen3(R"(, "mlp_only_layers": "none")"), HasSubstr("must be a list of numbers of layers"));
  EXPECT_THAT(qwen3(R"(, "decoder_sparse_step": 5)"), HasSubstr("decoder_sparse_step: leaves none"));
  EXPECT_THAT(qwen3(R"(, "moe_shared": 5)"), HasSubstr("none of the keys of experts"));
  const auto with = [](std::string_view key, std::string_view value) {
    std::string text = deepseek(groups);
    const auto at = text.find(fmt::format("\"{}\": ", key)) + key.size() + 4;
    return fault_of(text.replace(at, text.find_first_of(",}", at) - at, value));
  };
  EXPECT_EQ(with("n_group", "2"), "no error");
  EXPECT_THAT(with("n_group", "3"), HasSubstr("n_group: 3 does not divide model.n_routed_experts 8"));
  EXPECT_THAT(with("n_group", "8"), HasSubstr("n_group: 8 makes groups of one expert"));
  EXPECT_THAT(with("topk_group", "5"), HasSubstr("topk_group: 5 must be in 1..4"));
  EXPECT_THAT(with("topk_group", "1"), HasSubstr("num_experts_per_tok: 3 is more than the 2 experts in"));
  EXPECT_THAT(with("first_k_dense_replace", "4"), HasSubstr("first_k_dense_replace: leaves none"));
  EXPECT_THAT(fault_of(json_of("deepseek_v3", groups)), HasSubstr("q_lora_rank: is missing"));
  EXPECT_THAT(with("qk_rope_head_dim", "3"), HasSubstr("qk_rope_head_dim: 3 columns"));
  EXPECT_THAT(fault_of(deepseek(fmt::format(R"({}, "num_key_value_heads": 2)", groups))),
              HasSubstr("num_key_value_heads: 2 differs"));
  EXPECT_THAT(fault_of(deepseek(fmt::format(R"({}, "scoring_func": "softmax")", groups))),
              HasSubstr("scoring_func: sigmoid"));
  EXPECT_THAT(fault_of(json_of("llama", R"(, "num_experts_per_tok": 2)")),
              HasSubstr("mixtures of experts, but llama models are dense"));
}

TEST(ExpertConfig, YarnIsReadWholeOrRefused) {
  const auto fault = [](std::string_view more) {
    return fault_of(
        qwen3_moe(fmt::format(R"(, "num_experts": 8, "rope_scaling": {{"rope_type": "yarn"{}}})", more)));
  };
  constexpr std::string_view whole = R"(, "factor": 4.0, "original_max_position_embeddings": 64)";
  EXPECT_EQ(fault(whole), "no error");
  EXPECT_THAT(fault(R"(, "factor": 4.0)"), HasSubstr("original_max_position_embeddings: is missing"));
  EXPECT_THAT(fault(R"(, "factor": null, "original_max_position_embeddings": 64)"),
              HasSubstr("factor: is missing"));
  EXPECT_THAT(fault(fmt::format(R"({}, "beta_slow": 40)", whole)), HasSubstr("beta_slow: 40"));
  EXPECT_THAT(fault(fmt::format(R"({}}}, "original_max_position_embeddings": 32, "x": {{"y": 1)", whole)),
              HasSubstr("original_max_position_embeddings: is 32, but 64 among the parameters"));
  const ModelConfig model = parsed(qwen3_moe(fmt::format(
      R"(, "num_experts": 8, "rope_parameters": {{"rope_type": "yarn", "rope_theta": 1e6, "mscale": 0.7,
          "mscale_all_dim": 1.3, "attention_factor": 0.9, "beta_fast": 20, "beta_slow": 2, "truncate": false{}}})",
      whole)));
  EXPECT_EQ(model.attention.rope.rotary_factor(), 0.9);
  expect_round_trip(model);
}

TEST(ExpertConfig, KeysInAConfigAreThoseOfTheFamily) {
  const auto parse_yaml = [](std::string_view model) {
    return parse_config(fmt::format("data: {{train: a.txt}}\nmemory: {{device: 1GiB, host: 2GiB}}\n"
                                    "train: {{sequence_length: 16}}\nmodel: {{{}}}\n",
                                    model),
                        "c.yaml", {});
  };
  const auto config = parse_yaml("model_type: qwen3_moe, num_experts: 16, mlp_only_layers: [0, 11]");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->model.experts.count, 16u);
  EXPECT_EQ(config->model.experts.dense, (std::vector<u32>{0, 11}));
  EXPECT_EQ(parse_config(to_yaml(*config), "c.yaml", {}).value(), *config);
  EXPECT_EQ(parse_config(
                "data: {train: a.txt}\nmemory: {device: 1GiB, host: 2GiB}\n", "c.yaml",
                {"model_type=qwen3_moe", "num_experts=16", "mlp_only_layers=[0, 11]", "sequence_length=16"})
                .value(),
            *config);
  EXPECT_THAT(parse_yaml("model_type: mixtral, num_experts: 16").error().message,
              HasSubstr("num_local_experts"));
  EXPECT_THAT(parse_yaml("model_type: qwen3_moe, mlp_only_layers: [x]").error().message,
              HasSubstr("mlp_only_layers"));
}

TEST(ExpertConfig, AGroupOfMoreExpertsThanALayerHasIsRefused) {
  const auto with = [](std::string_view family, std::string_view group) {
    const auto config =
        parse_config(fmt::format("data: {{train: a.txt}}\nmodel: {{model_type: {}}}\n"
                                 "memory: {{device: 1GiB, host: 2GiB, experts_per_group: {}}}\n"
                                 "train: {{sequence_length: 16}}\n",
                                 family, group),
                     "c.yaml", {});
    return config ? "no error" : config.error().message;
  };
  EXPECT_EQ(with("mixtral", "8"), "no error");
  EXPECT_EQ(with("mixtral", "auto"), "no error");
  EXPECT_EQ(with("gpt2", "9"), "no error");
  EXPECT_THAT(with("mixtral", "9"), AllOf(HasSubstr("c.yaml:3"), HasSubstr("memory.experts_per_group: 9"),
                                          HasSubstr("set at most 8")));
}

}  // namespace tidepool::experts_test
