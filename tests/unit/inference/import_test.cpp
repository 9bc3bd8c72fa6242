// Passes model directories through runs of zero steps: the output equals the input, and the run needs only
// its own directory.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/text/hash.h"
#include "checkpoint/manifest.h"
#include "config_files/load_config.h"
#include "inference/generate.h"
#include "tests/support/file_text.h"
#include "tests/support/model_directory.h"
#include "tests/support/safetensors.h"
#include "tests/support/train_fixture.h"
#include "tidepool/fp16.h"

namespace tidepool::import_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

Config config_of(const test::TrainDir& dir, const ModelConfig& model, Precision precision) {
  Config c = test::small_config(dir);
  c.model_directory = dir / "model";
  test::write_model_directory(c.model_directory, model, precision);
  c.model = read_model_directory(c.model_directory).value();
  c.train.precision = precision;
  c.train.sequence_length = 16;
  c.train.max_steps = 0;
  return c;
}

ModelConfig model_of(Family family, bool tied) {
  ModelConfig model = test::small_model(family);
  model.vocab_size = 260;  // room for two tokens after the bytes
  if (family != Family::gpt2) model.tied = tied;
  return model;
}

struct Case {
  Family family;
  bool tied;
  Precision precision;
};
std::vector<Case> all_cases() {
  std::vector<Case> out;
  for (u32 f = 0; f < family_count; ++f) {
    for (const bool tied : {true, false})
      for (u32 p = 0; p < precision_count; ++p)
        if (tied || static_cast<Family>(f) != Family::gpt2)
          out.push_back({static_cast<Family>(f), tied, static_cast<Precision>(p)});
  }
  return out;
}

class Import : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, Import, ::testing::ValuesIn(all_cases()), [](const auto& p) {
  return fmt::format("{}_{}_{}", name(p.param.family), p.param.tied ? "tied" : "untied",
                     name(p.param.precision));
});

TEST_P(Import, WithZeroStepsLeavesTheBytesOfEveryTensorUnchanged) {
  const test::TrainDir dir;
  const Config config = config_of(dir, model_of(GetParam().family, GetParam().tied), GetParam().precision);
  const auto report = test::run(config);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->steps, 0u);
  const std::string checkpoint = config.output.dir + "/checkpoint-0";
  const test::Safetensors before(config.model_directory + "/model.safetensors"),
      after(checkpoint + "/model.safetensors");
  ASSERT_EQ(before.names(), after.names());
  for (const std::string& name : before.names()) EXPECT_EQ(before.get<u8>(name), after.get<u8>(name)) << name;
  EXPECT_THAT(test::file_text(checkpoint + "/config.json"), HasSubstr("\"eos_token_id\": 2"));
  EXPECT_EQ(read_model_directory(checkpoint).value(), config.model);
}

TEST(ImportedRun, ResumesFromStepZeroLikeARunThatBeganThere) {
  const test::TrainDir dir;
  Config config = config_of(dir, model_of(Family::llama, false), Precision::bf16);
  ASSERT_TRUE(test::run(config));
  config.train.max_steps = 3;
  const test::Numbers resumed = test::train_numbers(config, {.resume = "auto"});
  config.output.dir = dir / "whole";
  const test::Numbers whole = test::train_numbers(config);
  EXPECT_EQ(resumed.weights_xxh3, whole.weights_xxh3);
  EXPECT_EQ(resumed.losses, whole.losses);
}

TEST(ImportedRun, AStateThatHoldsMoreThanTheWeightsGivesThemBackInFp32) {
  const test::TrainDir dir;
  Config config = config_of(dir, model_of(Family::qwen3, true), Precision::fp16);
  config.train.precision = Precision::fp32;
  ASSERT_TRUE(test::run(config));
  const test::Safetensors before(config.model_directory + "/model.safetensors"),
      after(config.output.dir + "/checkpoint-0/model.safetensors");
  for (const std::string& name : before.names()) {
    const std::vector<u16> halves = before.get<u16>(name);
    const std::vector<float> words = after.get<float>(name);
    ASSERT_EQ(halves.size(), words.size());
    for (std::size_t i = 0; i < words.size(); ++i) ASSERT_EQ(fp16_from_float(words[i]), halves[i]) << name;
  }
}

class CarriedAlong : public ::testing::Test {
 protected:
  CarriedAlong() {
    config_ = config_of(dir_, model_of(Family::llama, true), Precision::fp32);
    test::write_byte_tokenizer(config_.model_directory);
    config_.data.train = {dir_ / "chats.jsonl"};
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines += fmt::format(
          R"({{"messages": [{{"role": "user", "content": "{}?"}}, {{"role": "assistant", "content": "tide {}"}}]}})"
          "\n",
          i, i);
    test::write_file(dir_ / "chats.jsonl", lines);
    config_.train.max_steps = 2;
    config_.train.sequence_length = 32;
    config_.output.max_shard_size = Bytes{100'000};
  }
  std::string checkpoint(u64 step) const { return fmt::format("{}/checkpoint-{}", config_.output.dir, step); }
  std::string generate(const std::string& path, const GenerateConfig& options,
                       const std::vector<std::string>& overrides = {}) {
    std::string text;
    const auto done = generate_text({.path = path, .overrides = overrides, .generate = options, .threads = 2},
                                    [&](std::string_view part) { text += part; });
    return done ? text : "error: " + done.error().message;
  }

  const test::TrainDir dir_;
  Config config_;
};

TEST_F(CarriedAlong, EveryCheckpointHasTheTokenizersFiles) {
  ASSERT_TRUE(test::run(config_));
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
    EXPECT_EQ(test::file_text(checkpoint(2) + "/" + file),
              test::file_text(config_.model_directory + "/" + file))
        << file;
  EXPECT_THAT(test::file_text(checkpoint(2) + "/manifest.json"), HasSubstr("tokenizer.json"));
}

TEST_F(CarriedAlong, TemplatesWithNamesAreInEveryCheckpoint) {
  const std::string all = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}",
                    file = "additional_chat_templates/tool_use.jinja";
  fs::create_directory(config_.model_directory + "/additional_chat_templates");
  test::write_file(config_.model_directory + "/chat_template.jinja", all);
  test::write_file(config_.model_directory + "/" + file, "{{ tools | length }}");
  test::write_file(config_.model_directory + "/additional_chat_templates/notes.txt", "mine");
  config_.data.loss = "all";
  ASSERT_TRUE(test::run(config_));
  EXPECT_EQ(test::file_text(checkpoint(2) + "/" + file), "{{ tools | length }}");
  EXPECT_FALSE(fs::exists(checkpoint(2) + "/additional_chat_templates/notes.txt"));
  EXPECT_THAT(test::file_text(checkpoint(2) + "/manifest.json"), HasSubstr(file));
  config_.train.max_steps = 3;
  const auto resumed = test::run(config_, {.resume = "auto"});  // files that the manifest names are sound
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(test::file_text(checkpoint(3) + "/" + file), "{{ tools | length }}");
  // A template that the config names applies to all records.
  test::write_file(dir_ / "chat.jinja", all);
  config_.data.chat_template = dir_ / "chat.jinja";
  config_.output.dir = dir_ / "named";
  ASSERT_TRUE(test::run(config_));
  EXPECT_FALSE(fs::exists(checkpoint(3) + "/" + file));
}

TEST_F(CarriedAlong, AnotherTokenizerAndTemplateTakeThePlaceOfTheModels) {
  fs::create_directory(dir_ / "other");
  test::write_byte_tokenizer(dir_ / "other");
  fs::rename(dir_ / "other/tokenizer.json", dir_ / "other/mine.json");
  fs::remove(dir_ / "other/generation_config.json");
  test::write_file(config_.model_directory + "/merges.txt", "of the model's own");
  test::write_file(dir_ / "chat.jinja",
                   "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
                   "{% if add_generation_prompt %}assistant: {% endif %}");
  config_.data.tokenizer = dir_ / "other/mine.json";
  config_.data.chat_template = dir_ / "chat.jinja";
  const auto report = test::run(config_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(test::file_text(checkpoint(2) + "/tokenizer.json"), test::file_text(dir_ / "other/mine.json"));
  EXPECT_EQ(test::file_text(checkpoint(2) + "/chat_template.jinja"), test::file_text(dir_ / "chat.jinja"));
  EXPECT_THAT(test::file_text(checkpoint(2) + "/generation_config.json"), HasSubstr("0.6"));
  EXPECT_FALSE(fs::exists(checkpoint(2) + "/merges.txt"));
  // Resumes without either of the files.
  fs::remove_all(dir_ / "other");
  fs::remove(dir_ / "chat.jinja");
  fs::remove_all(dir_ / "data-cache");
  config_.train.max_steps = 3;
  const auto resumed = test::run(config_, {.resume = "auto"});
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_TRUE(fs::exists(checkpoint(3) + "/chat_template.jinja"));
}

TEST_F(CarriedAlong, ARunResumesWithoutItsModelDirectory) {
  Config whole = config_;
  whole.output.dir = dir_ / "whole";
  whole.train.max_steps = 4;
  const test::Numbers expected = test::train_numbers(whole);
  config_.train.max_steps = 4;
  ASSERT_EQ(test::run(config_, {.stop_after = 2}).error().kind, ErrorKind::interrupted);
  fs::rename(config_.model_directory, dir_ / "gone");
  fs::remove_all(dir_ / "data-cache");
  const auto config = load_config(config_.output.dir + "/config.yaml", {}, KeptModel::read);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->model, config_.model);
  const auto resumed = test::run(*config, {.resume = "auto"});
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(resumed->weights_xxh3, expected.weights_xxh3);
  EXPECT_TRUE(fs::exists(checkpoint(4) + "/tokenizer.json"));
}

TEST_F(CarriedAlong, ANewRunRefusesMissingFilesThatAnEarlierRunKept) {
  Config before = config_;
  before.output.save = false;
  test::write_file(dir_ / "chat.jinja", "{% for m in messages %}{{ m['content'] }}{% endfor %}");
  before.data.chat_template = dir_ / "chat.jinja";
  ASSERT_TRUE(test::run(before));
  ASSERT_TRUE(fs::exists(config_.output.dir + "/model-files/tokenizer.json"));
  ASSERT_TRUE(fs::exists(config_.output.dir + "/model-files/chat_template.jinja"));
  for (std::string DataConfig::*const key : {&DataConfig::tokenizer, &DataConfig::chat_template}) {
    Config config = config_;
    config.data.*key = dir_ / "mistyped";
    for (const char* resume : {"", "auto"}) {  // with "auto" there is nothing to resume
      const auto refused = test::run(config, {.resume = resume});
      ASSERT_FALSE(refused);
      EXPECT_THAT(refused.error().message, HasSubstr(config.data.*key));
    }
  }
  test::write_file(dir_ / "c.yaml", to_yaml(config_));
  const auto mistyped = load_config(dir_ / "c.yaml", {"model=" + (dir_ / "mistyped")});
  ASSERT_FALSE(mistyped);
  EXPECT_EQ(mistyped.error().kind, ErrorKind::usage);
  EXPECT_THAT(mistyped.error().message, HasSubstr("'" + (dir_ / "mistyped") + "' is not a directory"));
}

TEST_F(CarriedAlong, AResumedRunNamesATemplateThatItNeitherFindsNorKept) {
  ASSERT_TRUE(test::run(config_));
  config_.train.max_steps = 3;
  config_.data.chat_template = dir_ / "mistyped.jinja";
  const auto resumed = test::run(config_, {.resume = "auto"});
  ASSERT_FALSE(resumed);
  EXPECT_THAT(resumed.error().message, HasSubstr(config_.data.chat_template));
}

TEST_F(CarriedAlong, GenerateSpeaksThroughTheTokenizerOfTheCheckpoint) {
  ASSERT_TRUE(test::run(config_));
  fs::rename(config_.model_directory, dir_ / "gone");
  const std::string text =
      generate(config_.output.dir, {.prompt = "Déjà", .max_new_tokens = 6, .temperature = 0});
  EXPECT_TRUE(text.starts_with("Déjà")) << text;
  EXPECT_FALSE(text.starts_with("error")) << text;
  const std::string chat =
      generate(checkpoint(2), {.prompt = "1?", .max_new_tokens = 6, .temperature = 0, .chat = true});
  EXPECT_FALSE(chat.starts_with("error")) << chat;
  EXPECT_FALSE(chat.starts_with("[user]")) << chat;
  // The first generated token ends the text: only the prompt is left.
  std::string ids;
  for (int i = 0; i < 260; ++i) ids += fmt::format("{}{}", i == 0 ? "" : ", ", i);
  const std::string ends = "{\"eos_token_id\": [" + ids + "]}";
  test::write_file(checkpoint(2) + "/generation_config.json", ends);
  EXPECT_THAT(generate(config_.output.dir, {.prompt = "The tide", .max_new_tokens = 6}),
              HasSubstr("generation_config.json: holds "));  // not the original content
  Manifest manifest = read_manifest(checkpoint(2)).value();
  for (ListedFile& file : manifest.files)
    if (file.file == "generation_config.json") file.bytes = ends.size(), file.xxh3 = hash_of(ends);
  test::write_file(checkpoint(2) + "/manifest.json", to_text(manifest));
  EXPECT_EQ(generate(config_.output.dir, {.prompt = "The tide", .max_new_tokens = 6}), "The tide");
}

// Regression: budgets on its command line had no effect, and with a model directory it asked for a
// config.yaml.
TEST_F(CarriedAlong, GenerateTakesOverrides) {
  config_.train.max_steps = 0;
  ASSERT_TRUE(test::run(config_));
  const GenerateConfig options{.prompt = "The tide", .max_new_tokens = 6, .temperature = 0};
  const std::string text = generate(config_.output.dir, options);
  EXPECT_TRUE(text.starts_with("The tide")) << text;
  EXPECT_EQ(generate(config_.output.dir, options, {"memory.device=600KiB"}), text);
  EXPECT_TRUE(generate(config_.output.dir, options, {"memory.device=1KiB"}).starts_with("error"));
  EXPECT_THAT(generate(config_.output.dir, options, {"foo=bar"}), HasSubstr("unknown key 'foo'"));

  const std::string& model = config_.model_directory;
  EXPECT_THAT(generate(model, options), HasSubstr("or memory.device=2GiB to the command"));
  std::vector<std::string> said = {"memory.device=16MiB", "memory.host=16MiB",
                                   "output.dir=" + (dir_ / "out")};
  EXPECT_EQ(generate(model, options, said), text);

  fs::rename(model + "/tokenizer.json", dir_ / "tokenizer.json");
  test::write_file(model + "/tokenizer_config.json", "{}");
  EXPECT_THAT(generate(model, options, said), HasSubstr("no tokenizer.json"));
  said.push_back("data.tokenizer=" + (dir_ / "tokenizer.json"));
  EXPECT_EQ(generate(model, options, said), text);
  EXPECT_THAT(generate(config_.output.dir, options, {"data.tokenizer=" + (dir_ / "mistyped")}),
              HasSubstr("mistyped"));
}

// Follows the error's advice.
TEST_F(CarriedAlong, GenerateTakesTheNewPlaceOfTheModelOfAdapters) {
  config_.lora.r = 2;
  const auto report = test::run(config_);
  ASSERT_TRUE(report) << report.error().message;
  const GenerateConfig options{.prompt = "The tide", .max_new_tokens = 6, .temperature = 0};
  const std::string text = generate(config_.output.dir, options);
  EXPECT_TRUE(text.starts_with("The tide")) << text;
  fs::rename(config_.model_directory, dir_ / "moved");
  EXPECT_THAT(generate(config_.output.dir, options), HasSubstr("model=DIR"));
  EXPECT_EQ(generate(config_.output.dir, options, {"model=" + (dir_ / "moved")}), text);
}

TEST_F(CarriedAlong, AChatNeedsATemplate) {
  test::write_file(config_.model_directory + "/tokenizer_config.json", R"({"eos_token": "</s>"})");
  config_.data.train = {dir_.data()};
  const auto report = test::run(config_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(generate(config_.output.dir, {.prompt = "1?", .chat = true}),
              HasSubstr("has no chat template"));
}

}  // namespace tidepool::import_test
