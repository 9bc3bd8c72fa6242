// Models of other families than GPT-2 in configs, and model directories.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "config/config.h"
#include "config/schema.h"
#include "config_files/load_config.h"
#include "huggingface/directory/hf_config.h"
#include "tests/support/disk_fixture.h"
#include "tests/support/family_cases.h"

namespace tidepool::families_test {

using ::testing::HasSubstr;

constexpr std::string_view smallest =
    "data: {train: a.txt}\nmemory: {device: 1GiB, host: 2GiB}\ntrain: {sequence_length: 16}\n";

std::string with(std::string_view more) { return std::string(smallest) + std::string(more); }

Config parse(std::string_view yaml, const std::vector<std::string>& overrides = {}) {
  auto config = parse_config(yaml, "c.yaml", overrides);
  EXPECT_TRUE(config) << config.error().message;
  return config ? *config : Config{};
}

std::string fault_of(std::string_view yaml, const std::vector<std::string>& overrides = {}) {
  const auto config = parse_config(yaml, "c.yaml", overrides);
  return config ? "no error" : config.error().message;
}

TEST(ConfigFamilies, HaveTheirOwnKeys) {
  const ModelConfig m =
      parse(with("model:\n  model_type: llama\n  hidden_size: 512\n  num_hidden_layers: 6\n"
                 "  num_attention_heads: 8\n  num_key_value_heads: 2\n  rms_norm_eps: 1e-5\n"
                 "  rope_scaling: {type: llama3, factor: 8}\n  rope_theta: 500000\n"
                 "  max_position_embeddings: 4096\n"))
          .model;
  EXPECT_EQ(m.family, Family::llama);
  EXPECT_EQ(m.width, 512u);
  EXPECT_EQ(m.layers, 6u);
  EXPECT_EQ(m.kv_heads(), 2u);
  EXPECT_EQ(m.head_size(), 64u);
  EXPECT_EQ(m.inner(), 1536u);  // 8/3 of 512 is 1365
  EXPECT_FALSE(m.tied);
  EXPECT_EQ(m.attention.rope, (Rope{.type = RopeType::llama3, .theta = 500000, .factor = 8}));
}

TEST(ConfigFamilies, CanBeChosenByOverrides) {
  const Config c = parse(smallest, {"model_type=qwen3", "model.head_dim=96", "rope_parameters.factor=2",
                                    "model.rope_scaling.rope_type=linear", "tie_word_embeddings=true"});
  EXPECT_EQ(c.model.family, Family::qwen3);
  EXPECT_EQ(c.model.head_size(), 96u);
  EXPECT_EQ(c.model.attention.rope.type, RopeType::linear);
  EXPECT_EQ(c.model.attention.rope.factor, 2);
  EXPECT_TRUE(c.model.tied);
}

TEST(ConfigFamilies, KeysOfAnotherFamilyAreRefused) {
  EXPECT_THAT(fault_of(with("model:\n  hidden_size: 64\n")),
              HasSubstr("c.yaml:5: model.hidden_size: is a key of Llama-like models, but this model is gpt2; "
                        "its name there is n_embd, or set model.model_type: llama"));
  EXPECT_THAT(fault_of(with("model: {model_type: llama, n_embd: 64}")),
              HasSubstr("is a key of gpt2 models, but this model is llama; its name there is hidden_size"));
  EXPECT_THAT(fault_of(with("model: {model_type: mistral, mlp_bias: true}")),
              HasSubstr("'true' is not supported"));
  EXPECT_THAT(fault_of(smallest, {"num_hidden_layers=3"}), HasSubstr("its name there is n_layer"));
}

TEST(ConfigFamilies, SettingsThatAreNotComputedAreRefusedByName) {
  const auto llama = [](std::string_view more) {
    return with("model: {model_type: mistral, " + std::string(more) + "}");
  };
  EXPECT_THAT(fault_of(with("model: {model_type: dbrx}")), HasSubstr("'dbrx' is another mixture of experts"));
  EXPECT_THAT(fault_of(with("model: {model_type: qwen2_moe}")), ::testing::Not(HasSubstr("did you mean")));
  EXPECT_EQ(fault_of(with("model: {model_type: gemma2}")), "no error");
  EXPECT_THAT(fault_of(with("model: {model_type: gemma3}")), HasSubstr("'gemma3' also reads images"));
  const auto gemma = [](std::string_view more) {
    return with("model: {model_type: gemma3_text, " + std::string(more) + "}");
  };
  EXPECT_EQ(fault_of(gemma("hidden_activation: gelu_pytorch_tanh, attn_logit_softcapping: null")),
            "no error");
  EXPECT_THAT(fault_of(gemma("hidden_activation: relu")), HasSubstr("hidden_activation: gelu_pytorch_tanh"));
  EXPECT_THAT(fault_of(gemma("final_logit_softcapping: 30.0")),
              HasSubstr("choose a model without soft caps"));
  EXPECT_THAT(fault_of(gemma("attn_logit_softcapping: 50.0")), HasSubstr("choose a model without soft caps"));
  EXPECT_THAT(fault_of(gemma("use_bidirectional_attention: true")), HasSubstr("'true' is not supported"));
  EXPECT_THAT(fault_of(gemma("layer_types: [full_attention]")),
              HasSubstr("set model.sliding_window_pattern"));
  EXPECT_THAT(fault_of(with("model: {model_type: lama}")), HasSubstr("did you mean 'llama'?"));
  EXPECT_EQ(fault_of(llama("sliding_window: null")), "no error");
  EXPECT_THAT(fault_of(llama("hidden_act: gelu")), HasSubstr("hidden_act: silu"));
  EXPECT_THAT(fault_of(llama("rope_scaling: {type: su}")),
              HasSubstr("'su' is not one of default, linear, llama3, yarn, dynamic, longrope"));
  EXPECT_THAT(fault_of(llama("layer_types: [full_attention, sliding_attention]")),
              HasSubstr("'sliding_attention'"));
  EXPECT_EQ(fault_of(llama("layer_types: [full_attention, full_attention]")), "no error");
  EXPECT_THAT(fault_of(llama("pretraining_tp: 2")), HasSubstr("pretraining_tp: 1"));
  EXPECT_THAT(fault_of(llama("num_attention_heads: 12, num_key_value_heads: 5")),
              HasSubstr("5 does not divide"));
  EXPECT_THAT(fault_of(llama("head_dim: 7")), HasSubstr("pairs"));
}

TEST(ConfigFamilies, EffectiveConfigReadsBackTheSame) {
  for (u32 f = 0; f < family_count; ++f) {
    Config c = parse(smallest);
    c.model = default_model(static_cast<Family>(f));
    c.model.width = 96, c.model.attention.heads = 4;
    const bool latent = style(c.model.family).mixer == MixerKind::latent;
    if (c.model.family != Family::gpt2 && !latent) c.model.attention.kv_heads_given = 2;
    if (traits(c.model.family).step_limits_key) c.model.mamba.heads = 6, c.model.mamba.head_dim = 32;
    if (c.model.family == Family::phi3)
      c.model.attention.rope.partial_factor = 0.75;
    else if (traits(c.model.family).global_sizes_key)
      c.model.attention.rope.partial_factor = 0.5, c.model.softmax.global_head_size = 40;
    else if (c.model.family != Family::gpt2)
      c.model.attention.rope.type = RopeType::linear, c.model.attention.rope.factor = 1.5;
    if (c.model.family == Family::gemma3_text)
      c.model.softmax.local_rope_theta = 5000, c.model.softmax.sliding_window_pattern = 2,
      c.model.softmax.scale_given = 168;
    EXPECT_EQ(parse(to_yaml(c)), c);
    EXPECT_EQ(to_yaml(c).find("n_embd") == std::string::npos, c.model.family != Family::gpt2);
  }
}

TEST(ModelDirectory, StandsInThePlaceOfTheMap) {
  const std::string directory = test::family_directory("qwen3_tied_head_dim");
  const Config c = parse(with("model: " + directory + "\n"));
  EXPECT_EQ(c.model_directory, directory);
  EXPECT_EQ(c.model.family, Family::qwen3);
  EXPECT_EQ(c.model.head_size(), 8u);
  EXPECT_TRUE(c.model.tied);
  EXPECT_EQ(parse(with("model: {model_type: llama, hidden_size: 64}"),
                  {"model.directory=" + directory, "model_type=qwen3", "hidden_size=24"}),
            c);
  EXPECT_EQ(parse(to_yaml(c)), c);
  EXPECT_EQ(
      parse(with("model: {directory: " + test::family_directory("llama_tied") + "}"), {"model=" + directory}),
      c);
  EXPECT_EQ(parse(smallest, {"model=" + directory, "attention_dropout=0.1"}).model.attention.dropout, 0.1);
}

TEST(ModelDirectory, FaultsNameTheKeyOrFile) {
  const auto missing = parse_config(with("model: /nowhere/at-all\n"), "c.yaml", {});
  EXPECT_EQ(missing.error().kind, ErrorKind::usage);
  EXPECT_THAT(missing.error().message, HasSubstr("c.yaml:4: model: '/nowhere/at-all' is not a directory"));
  const std::string directory = test::family_directory("llama_tied");
  EXPECT_THAT(fault_of(with("model: {directory: " + directory + ", model_type: gpt2}")),
              HasSubstr("holds a llama model"));
  EXPECT_THAT(fault_of(with("model: " + directory + "\n"), {"n_embd=3"}),
              HasSubstr("its name there is hidden_size"));
}

// Regression: the message was "u/config.json: cannot open".
TEST(ModelDirectory, WithoutAConfigNamesTheMissingFile) {
  const test::ScratchDir scratch;
  const auto config = parse_config(with("model: " + scratch.path() + "\n"), "c.yaml", {});
  EXPECT_EQ(config.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(config.error().message, HasSubstr(scratch.path() + " holds no config.json, which describes"));
}

// Regression: the advice was to raise n_positions, for which there are no weights.
TEST(ModelDirectory, LearnedPositionsAreNotRaised) {
  const auto too_long = [](const char* name) {
    return fault_of(smallest, {"model=" + test::family_directory(name), "sequence_length=5000"});
  };
  EXPECT_THAT(too_long("gpt2_plain"), HasSubstr("shorten the sequences: positions are learned, and /"));
  EXPECT_THAT(too_long("llama_tied"), HasSubstr("shorten the sequences or raise max_position_embeddings"));
}

// Regression: the message was "config.json: cannot open".
TEST(ModelDirectory, OfARunNamesItsNewestCheckpoint) {
  const test::ScratchDir scratch;
  const std::string run = scratch / "run";
  for (const char* name : {"checkpoint-9", "checkpoint-10", "checkpoint-11.tmp-7", "checkpoint-best"})
    std::filesystem::create_directories(run + "/" + name);
  EXPECT_THAT(
      fault_of(with("model: " + run + "\n")),
      HasSubstr("c.yaml:4: model: " + run + " is a run's directory, which holds no config.json: name its " +
                "newest checkpoint, " + run + "/checkpoint-10"));
  std::ofstream(run + "/checkpoint-10/adapter_config.json") << "{}";
  EXPECT_THAT(fault_of(with("model: " + run + "\n")),
              HasSubstr("`tidepool export " + run + "/checkpoint-10 OUT` and name OUT"));
}

// Regression: the message was "name its newest checkpoint, run/checkpoint-7", which does not exist.
TEST(ModelDirectory, OnlyNamesThatResumingKnowsAreCheckpoints) {
  const test::ScratchDir scratch;
  const std::string yaml = with("model: " + scratch.path() + "\n");
  std::filesystem::create_directories(scratch / "checkpoint-007");
  EXPECT_THAT(fault_of(yaml), ::testing::Not(HasSubstr("newest checkpoint")));
  std::filesystem::create_directories(scratch / "checkpoint-3");
  EXPECT_THAT(fault_of(yaml), HasSubstr("newest checkpoint, " + (scratch / "checkpoint-3")));
}

std::string hf_fault(std::string_view text) {
  const auto model = parse_hf_config(text, ErrorKind::bad_input, "config.json");
  if (model) return "no error";
  EXPECT_EQ(model.error().kind, ErrorKind::bad_input);
  return model.error().message;
}

std::string qwen2_json(std::string_view more) {
  return R"({"model_type": "qwen2", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
             "num_attention_heads": 32)" +
         std::string(more) + "}";
}

TEST(HfConfig, DefaultsAreTransformers) {
  const ModelConfig m = parse_hf_config(qwen2_json(""), ErrorKind::bad_input, "config.json").value();
  EXPECT_EQ(m.kv_heads(), 32u);
  EXPECT_EQ(m.positions, 32768u);
  EXPECT_EQ(m.norm_epsilon, 1e-6);
  EXPECT_TRUE(m.qkv_bias());
  EXPECT_FALSE(m.tied);
  EXPECT_EQ(m.attention.rope, Rope{});
}

TEST(HfConfig, ReadsBothSpellingsOfRope) {
  const auto rope = [](std::string_view more) {
    return parse_hf_config(qwen2_json(more), ErrorKind::bad_input, "config.json").value().attention.rope;
  };
  const Rope linear = {.type = RopeType::linear, .theta = 1e6, .factor = 4};
  EXPECT_EQ(rope(R"(, "rope_theta": 1000000.0, "rope_scaling": {"type": "linear", "factor": 4.0})"), linear);
  EXPECT_EQ(rope(R"(, "rope_scaling": {"rope_type": "linear", "factor": 4}, "rope_theta": 1e6)"), linear);
  EXPECT_EQ(rope(R"(, "rope_parameters": {"rope_type": "linear", "rope_theta": 1000000, "factor": 4.0})"),
            linear);
  EXPECT_EQ(
      rope(
          R"(, "rope_theta": 5, "rope_scaling": null, "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"})"),
      Rope{.theta = 1e6});
}

// Regression: the last of the two was used.
TEST(HfConfig, RefusesTwoRopeTypesThatDiffer) {
  for (const std::string_view map : {"rope_scaling", "rope_parameters"}) {
    const auto fault = [&](std::string_view inner) {
      return hf_fault(qwen2_json(fmt::format(R"(, "{}": {{"factor": 4.0, {}}})", map, inner)));
    };
    EXPECT_EQ(fault(R"("type": "linear", "rope_type": "linear")"), "no error");
    EXPECT_EQ(fault(R"("type": null, "rope_type": "linear")"), "no error");
    EXPECT_THAT(
        fault(R"("type": "linear", "rope_type": "default")"),
        HasSubstr(fmt::format("{}.type: is \"linear\", but rope_type beside it is \"default\"; keep", map)));
    EXPECT_THAT(fault(R"("rope_type": "default", "type": "linear")"), HasSubstr("but rope_type beside it"));
  }
}

TEST(HfConfig, RopeScalingTakesThePlaceOfRopeParameters) {
  const auto rope = [](std::string_view more) {
    return parse_hf_config(qwen2_json(more), ErrorKind::bad_input, "config.json").value().attention.rope;
  };
  constexpr std::string_view scaling = R"(, "rope_scaling": {"rope_type": "linear", "factor": 8.0})";
  constexpr std::string_view parameters =
      R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0})";
  const Rope linear = {.type = RopeType::linear, .factor = 8};
  EXPECT_EQ(rope(fmt::format("{}{}", scaling, parameters)), linear);
  EXPECT_EQ(rope(fmt::format("{}{}", parameters, scaling)), linear);
  EXPECT_EQ(rope(fmt::format(R"({}, "rope_scaling": {{}})", parameters)), Rope{.theta = 300});
}

// If a source omits the ids, transformers uses the family's own (those of llama 1 and 2); null means none.
TEST(HfConfig, AddsNoTokenIdsToASource) {
  const auto written = [](std::string_view more) {
    const std::string source = qwen2_json(more);
    const ModelConfig model = parse_hf_config(source, ErrorKind::bad_input, "config.json").value();
    return hf_config_text(model, Precision::bf16, source);
  };
  EXPECT_THAT(written(""), Not(HasSubstr("os_token_id")));
  EXPECT_THAT(written(R"(, "bos_token_id": 7, "eos_token_id": [8, 9])"),
              AllOf(HasSubstr(R"("bos_token_id": 7)"), HasSubstr("8,")));
  EXPECT_THAT(
      hf_config_text(parse_hf_config(qwen2_json(""), ErrorKind::bad_input, "").value(), Precision::bf16),
      HasSubstr(R"("eos_token_id": null)"));
}

TEST(HfConfig, ANewNameWinsOverAnOldOne) {
  const auto positions = [](std::string_view more) {
    return parse_hf_config(
               R"({"model_type": "gpt2", "vocab_size": 64, "n_embd": 8, "n_layer": 1, "n_head": 1)" +
                   std::string(more) + "}",
               ErrorKind::bad_input, "config.json")
        .value()
        .positions;
  };
  EXPECT_EQ(positions(R"(, "n_positions": 32, "n_ctx": 1024)"), 32u);
  EXPECT_EQ(positions(R"(, "n_ctx": 1024, "n_positions": 32)"), 32u);
}

// Values in quotes: transformers fails on a quoted number, and takes any text for true.
TEST(HfConfig, TakesValuesOfTheRightKindOnly) {
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "tie_word_embeddings": "true")")),
              HasSubstr("config.json: tie_word_embeddings: \"true\" is a text; it must be a boolean"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "num_key_value_heads": "32")")),
              HasSubstr("\"32\" is a text; it must be an integer"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "max_position_embeddings": 64.0)")),
              HasSubstr("max_position_embeddings: 64.0 is a float; it must be an integer"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "max_position_embeddings": true)")),
              HasSubstr("true is a boolean; it must be an integer"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "rope_theta": "1e6")")),
              HasSubstr("\"1e6\" is a text; it must be a number"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "rope_scaling": {"rope_type": 1})")),
              HasSubstr("1 is an integer; it must be a text"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "use_sliding_window": "false")")),
              HasSubstr("use_sliding_window: \"false\" must be true or false"));
  EXPECT_EQ(hf_fault(qwen2_json(R"(, "rms_norm_eps": 1, "of_a_later_version": "true")")), "no error");
  EXPECT_EQ(
      hf_fault(qwen2_json(R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
                                     "high_freq_factor": 4, "original_max_position_embeddings": 8192.0})")),
      "no error");
}

std::string phi3_json(std::string_view more) {
  return R"({"model_type": "phi3", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
             "num_hidden_layers": 2, "num_attention_heads": 2)" +
         std::string(more) + "}";
}

TEST(HfConfig, OfPhi3IsReadAsTransformersDoes) {
  const auto read = [](std::string_view more) {
    return parse_hf_config(phi3_json(more), ErrorKind::bad_input, "config.json").value();
  };
  const ModelConfig plain = read(R"(, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attention_bias": false,
                                     "original_max_position_embeddings": 4096, "rope_scaling": null)");
  EXPECT_EQ(plain.positions, 4096u);
  EXPECT_EQ(plain.norm_epsilon, 1e-5);
  EXPECT_EQ(plain.kv_heads(), 2u);
  EXPECT_EQ(plain.window_of_any_layer(), 0u);
  EXPECT_EQ(plain.rotary_size(), 16u);
  EXPECT_EQ(read(R"(, "sliding_window": 2047)").window_of_any_layer(), 2047u);
  // A map overrides the keys beside it.
  EXPECT_EQ(read(R"(, "partial_rotary_factor": 0.75)").rotary_size(), 12u);
  EXPECT_EQ(read(R"(, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5},
                     "partial_rotary_factor": 0.75)")
                .rotary_size(),
            8u);
}

TEST(HfConfig, OfPhi3IsRefusedByName) {
  EXPECT_THAT(hf_fault(phi3_json(R"(, "rope_scaling": {"long_factor": [1.0], "short_factor": [1.0],
                                       "type": "longrope"})")),
              HasSubstr("short_factor: has 1 numbers; longrope needs one for each of the 8 pairs"));
  EXPECT_THAT(hf_fault(phi3_json(R"(, "rope_scaling": {"long_factor": 2.0, "short_factor": [1.0],
                                       "type": "longrope"})")),
              HasSubstr("long_factor: must be a list of numbers, and is a float"));
  EXPECT_THAT(hf_fault(phi3_json(R"(, "rope_scaling": {"long_factor": [1.0], "type": "longrope"})")),
              HasSubstr("short_factor: is missing, which rope type longrope needs"));
  EXPECT_THAT(hf_fault(phi3_json(R"(, "rope_scaling": {"long_factor": [1,1,1,1,1,1,1,1],
                                       "short_factor": [1,1,1,1,1,1,1,1], "type": "longrope"})")),
              HasSubstr("longrope needs the length of the first training"));
  EXPECT_THAT(hf_fault(phi3_json(R"(, "rope_scaling": {"long_factor": [1.0], "type": "su"})")),
              HasSubstr("'su' is not one of"));
  EXPECT_THAT(hf_fault(phi3_json(R"(, "resid_pdrop": 0.1)")), HasSubstr("resid_pdrop: 0"));
  EXPECT_THAT(hf_fault(phi3_json(R"(, "partial_rotary_factor": 0.2)")), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "partial_rotary_factor": 0.5)")),
              HasSubstr("partial_rotary_factor: 1"));
}

// The number that a refusal would let people change is one that a trained model was trained with.
TEST(HfConfig, RefusalsAdviseNothingThatChangesTheModel) {
  const std::vector<std::string> faults = {
      hf_fault(qwen2_json(R"(, "rope_scaling": {"rope_type": "yarn", "factor": 4.0})")),
      hf_fault(qwen2_json(R"(, "rope_scaling": {"rope_type": "dynamic"})")),
      hf_fault(qwen2_json(R"(, "rope_scaling": {"type": "linear"})")),
      hf_fault(qwen2_json(R"(, "rope_scaling": {"factor": 2.0})")),
      hf_fault(qwen2_json(R"(, "rope_scaling": {"type": "linear", "rope_type": "llama3", "factor": 2.0})")),
      hf_fault(qwen2_json(R"(, "rope_scaling": 3)")),
      hf_fault(qwen2_json(R"(, "partial_rotary_factor": 0.5)")),
      hf_fault(qwen2_json(R"(, "layer_types": ["full_attention", "sliding_attention"])")),
      hf_fault(qwen2_json(R"(, "use_sliding_window": true, "sliding_window": 8, "max_window_layers": "x")")),
      hf_fault(qwen2_json(R"(, "hidden_act": "gelu")")),
      hf_fault(qwen2_json(R"(, "use_mrope": true)")),
      hf_fault(qwen2_json(R"(, "num_experts": 8)")),
      hf_fault(qwen2_json(R"(, "moe_intermediate_size": 8)")),
      hf_fault(qwen2_json(R"(, "head_dim": 7)")),
      hf_fault(qwen2_json(R"(, "head_dim": 514)")),
      hf_fault(qwen2_json(R"(, "num_key_value_heads": 3)")),
      hf_fault(qwen2_json(R"(, "rms_norm_eps": 0)")),
      hf_fault(qwen2_json(R"(, "tie_word_embeddings": "false")")),
      hf_fault(phi3_json(R"(, "rope_scaling": {"long_factor": [1.0], "type": "longrope"})")),
      hf_fault(phi3_json(R"(, "rope_scaling": {"type": "su", "factor": 2.0})")),
      hf_fault(phi3_json(R"(, "resid_pdrop": 0.1)")),
      hf_fault(phi3_json(R"(, "partial_rotary_factor": 0.2)")),
  };
  for (const std::string& fault : faults) {
    EXPECT_NE(fault, "no error");
    for (const char* advice : {"set it", "lower it", "raise ", "leave it out", "leave the key out",
                               "keep one", "make it", "remove", "write full", "\"default\""})
      EXPECT_THAT(fault, ::testing::Not(HasSubstr(advice)));
  }
}

TEST(HfConfig, ARefusedRopeTypeListsTheOthers) {
  for (const FamilyTraits& family : families)
    if (family.style->positions == PositionKind::rotary)
      EXPECT_THAT(fault_of(with(
                      fmt::format("model: {{model_type: {}, rope_scaling: {{type: axial}}}}", family.name))),
                  HasSubstr("'axial' is not one of default, linear, llama3, yarn, dynamic, longrope, "
                            "proportional"));
}

// Phi-3's files: the original length beside the map, and no factor.
TEST(HfConfig, OfPhi3HasItsLengthsBesideTheFactors) {
  const ModelConfig phi = parse_hf_config(phi3_json(R"(, "original_max_position_embeddings": 1024,
      "rope_scaling": {"long_factor": [1,2,3,4,5,6,7,8], "short_factor": [1,1,1,1,1,1,1,1.5], "type": "longrope"})"),
                                          ErrorKind::bad_input, "config.json")
                              .value();
  EXPECT_EQ(phi.attention.rope.type, RopeType::longrope);
  EXPECT_EQ(phi.attention.rope.original_positions, 1024u);
  EXPECT_EQ(phi.attention.rope.factor, 4);
  EXPECT_EQ(phi.attention.rope.long_factor[7], 8);
  EXPECT_EQ(phi.attention.rope.short_factor[7], 1.5);
}

TEST(HfConfig, RefusesByName) {
  EXPECT_EQ(hf_fault(qwen2_json(
                R"(, "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 3)")),
            "no error");
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "layer_types": ["full_attention", "sliding_attention"])")),
              HasSubstr("layer_types"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "rope_scaling": {"rope_type": "axial", "factor": 4.0})")),
              HasSubstr("proportional; a model with other positions cannot be trained here"));
  // Guessing a missing value would make another model.
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8.0})")),
              HasSubstr("low_freq_factor: is missing, which rope type llama3 needs"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "rope_scaling": {"type": "linear"})")),
              HasSubstr("factor: is missing"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "rope_scaling": {"factor": 8.0})")),
              HasSubstr("rope_type: is missing"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "num_local_experts": 8)")), HasSubstr("mixtures of experts"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "quantization_config": {"bits": 4})")),
              HasSubstr("quantization_config.quant_method"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "hidden_act": "gelu")")), HasSubstr("hidden_act"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "rms_norm_eps": "small")")),
              HasSubstr("rms_norm_eps: \"small\" is a text; it must be a number"));
  EXPECT_THAT(hf_fault(qwen2_json(R"(, "num_key_value_heads": 5)")),
              HasSubstr("num_key_value_heads: 5 does not divide"));
  EXPECT_THAT(hf_fault(R"({"model_type": "qwen2", "vocab_size": 64})"), HasSubstr("hidden_size: is missing"));
  EXPECT_THAT(hf_fault(R"({"model_type": "qwen3_next_moe"})"), HasSubstr("another mixture of experts"));
  EXPECT_THAT(hf_fault(R"({"architectures": ["LlamaForCausalLM"]})"), HasSubstr("model_type"));
  EXPECT_THAT(hf_fault("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(hf_fault("{"), HasSubstr("config.json"));
}

}  // namespace tidepool::families_test
