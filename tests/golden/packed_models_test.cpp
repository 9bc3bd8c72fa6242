// Tests quantized models as they are published: training adapters beside a packed base against the same base
// unpacked to bf16, to the bit, under any placement; and exports against the reference implementations'
// values (scripts/make_golden_packed_models.py).
#include <gmock/gmock.h>
#include <zlib.h>

#include <filesystem>

#include "base/files/files.h"
#include "checkpoint/export_model.h"
#include "fit/job.h"
#include "huggingface/adapters/lora_merge.h"
#include "huggingface/directory/hf_config.h"
#include "model/blocks.h"
#include "tests/support/file_text.h"
#include "tests/support/placement.h"
#include "tests/support/places.h"
#include "tests/support/safetensors.h"
#include "tests/support/train_fixture.h"

namespace tidepool::test::packed_models_test {

constexpr const char* models[] = {"llama_fp8",     "llama_nf4",     "llama_nf4_double", "llama_int8",
                                  "qwen3_moe_fp8", "gpt_oss_mxfp4", "deepseek_v3_fp8"};

std::string golden(const std::string& name) { return source_file("tests/golden/packed_models/") + name; }

boost::json::value json_of(const std::string& path) { return boost::json::parse(test::file_text(path)); }

void export_to(const std::string& from, const std::string& to, const ExportOptions& options) {
  const auto model = ModelExport::open(from, options);
  ASSERT_TRUE(model) << model.error().message;
  const auto files = create_posix_files();
  const Result<void> written = (*model)->write(to, *files, [](u64) { return true; });
  ASSERT_TRUE(written) << written.error().message;
}

class PackedModels : public ::testing::TestWithParam<const char*> {
 protected:
  std::string packed() const { return golden(GetParam()); }
  std::string unpacked() const {
    const std::string to = dir_ / "unpacked";
    if (!std::filesystem::exists(to)) export_to(packed(), to, {.dtype = Precision::bf16});
    return to;
  }
  Config lora(const std::string& base, Precision precision) const {
    Config c = small_config(dir_);
    c.model = read_model_directory(base).value();
    c.model_directory = base;
    c.data.train = {token_file(dir_)}, c.data.packing = false;
    c.lora = {.r = 4, .alpha = 16, .target_modules = {"o_proj", "q_proj", "up_proj"}};
    // PEFT means experts too by up_proj.
    if (c.model.family == Family::deepseek_v3) c.lora.target_modules = {"o_proj", "q_b_proj", "kv_b_proj"};
    if (c.model.experts.count != 0 && c.model.family != Family::deepseek_v3) c.lora.target_modules.pop_back();
    c.train.precision = precision;
    c.train.gradient_accumulation_steps = 2;
    c.train.max_grad_norm = 0.5;
    c.train.learning_rate = 2e-2;
    c.memory.budgets = {Bytes{64 * mib}, Bytes{64 * mib}, Bytes{256 * mib}};
    return c;
  }
  Numbers numbers(const Config& config) const {
    SCOPED_TRACE(how_to_repeat(config));
    const auto report = run(config);
    EXPECT_TRUE(report) << report.error().message;
    std::filesystem::remove_all(config.output.dir);
    if (!report) return {};
    check_bytes(*report);
    return numbers_of(*report);
  }

  TrainDir dir_;
};

TEST_P(PackedModels, AdaptersLearnAsBesideTheUnpackedModel) {
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    SCOPED_TRACE(name(precision));
    const Numbers want = numbers(lora(unpacked(), precision));
    ASSERT_EQ(want.losses.size(), 4u);
    EXPECT_EQ(numbers(lora(packed(), precision)), want);
  }
}

TEST_P(PackedModels, PlacementChangesNoBit) {
  const Config common = lora(packed(), Precision::bf16);
  const bool with_experts = common.model.experts.count != 0;
  std::optional<Numbers> first;
  for (const Row& row : test::placement_rows(2, with_experts)) {
    Config config = placed(row, common);
    config.memory.io = IoBackend::threads;
    const Numbers found = numbers(config);
    if (!first) first = found;
    ASSERT_EQ(found, *first);
  }
}

TEST_P(PackedModels, AreExportedWithTheReferencesValues) {
  const Safetensors file(unpacked() + "/model.safetensors");
  const boost::json::object crc = json_of(packed() + "/unpacked.json").as_object();
  ASSERT_EQ(file.names().size(), crc.size());
  for (const auto& [name, want] : crc) {
    const std::vector<u8> bytes = file.get<u8>(std::string(name));
    EXPECT_EQ(crc32(0, bytes.data(), static_cast<unsigned>(bytes.size())), want.to_number<u64>()) << name;
  }
  const boost::json::object config = json_of(unpacked() + "/config.json").as_object();
  EXPECT_FALSE(config.contains("quantization_config"));
  EXPECT_EQ(config.at("dtype"), "bfloat16");
}

TEST_P(PackedModels, AreCopiedAsTheyAreWithoutADtype) {
  export_to(packed(), dir_ / "copy", {});
  const Safetensors from(packed() + "/model.safetensors"), to(dir_ / "copy/model.safetensors");
  ASSERT_EQ(from.names(), to.names());
  for (const std::string& name : from.names()) EXPECT_EQ(from.get<u8>(name), to.get<u8>(name)) << name;
  EXPECT_TRUE(json_of(dir_ / "copy/config.json").as_object().contains("quantization_config"));
}

TEST_P(PackedModels, TakeAdaptersAsTheUnpackedModelDoes) {
  Config config = lora(packed(), Precision::bf16);
  ASSERT_TRUE(run(config));
  const std::string adapter = config.output.dir + "/checkpoint-4";
  for (const std::string& base : {packed(), unpacked()}) {
    const auto merge = AdapterMerge::open(adapter, base);
    ASSERT_TRUE(merge) << merge.error().message;
    export_to(base, dir_ / (base == packed() ? "of_packed" : "of_unpacked"), {.change = merge->get()});
  }
  const Safetensors one(dir_ / "of_packed/model.safetensors"), other(dir_ / "of_unpacked/model.safetensors");
  ASSERT_THAT(one.names(), testing::UnorderedElementsAreArray(other.names()));
  for (const std::string& name : one.names()) EXPECT_EQ(one.get<u8>(name), other.get<u8>(name)) << name;
}

TEST_P(PackedModels, TakeLessMemoryThanUnpacked) {
  const auto bytes = [&](const std::string& base) {
    const ModelGraph graph = make_job(lora(base, Precision::bf16)).value().graph;
    u64 sum = 0;
    for (const Window& window : graph.windows)
      if (window.name.starts_with("layers.") && !window.adapter) sum += 2 * window.elements;
    return sum;
  };
  EXPECT_LT(bytes(packed()), 0.8 * static_cast<double>(bytes(unpacked())));
}

INSTANTIATE_TEST_SUITE_P(Published, PackedModels, ::testing::ValuesIn(models),
                         [](const auto& info) { return std::string(info.param); });

TEST(PackedModels, AreNotTrainedWithoutAdapters) {
  const TrainDir dir;
  Config c = small_config(dir);
  c.model_directory = golden("llama_nf4");
  c.model = read_model_directory(c.model_directory).value();
  c.data.train = {token_file(dir)};
  const auto report = run(c);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::usage);
  EXPECT_THAT(report.error().message,
              testing::AllOf(testing::HasSubstr("lora.r"), testing::HasSubstr("--dtype bf16"),
                             testing::HasSubstr("nf4")));
}

// Replaces a piece of a file's text.
void edit(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = test::file_text(path);
  ASSERT_NE(text.find(from), std::string::npos) << from;
  text.replace(text.find(from), from.size(), to);
  std::ofstream(path, std::ios::binary) << text;
}

Config beside(const TrainDir& dir, const std::string& model) {
  Config c = small_config(dir);
  c.model_directory = model;
  c.model = read_model_directory(model).value();
  c.lora = {.r = 4, .alpha = 16};
  c.data.train = {token_file(dir)};
  return c;
}

TEST(PackedModels, ValuesBeyondFp16AreRefusedInFp16) {
  const TrainDir dir;
  const std::string model = dir / "model";
  std::filesystem::copy(golden("llama_fp8"), model);
  const Safetensors file(model + "/model.safetensors");
  const auto scales = file.get<float>("model.layers.0.self_attn.q_proj.weight_scale_inv");
  const auto bytes = [](std::vector<float> x) {
    return std::string(reinterpret_cast<const char*>(x.data()), 4 * x.size());
  };
  std::vector<float> large = scales;
  large[0] = 1000;
  edit(model + "/model.safetensors", bytes(scales), bytes(large));
  Config c = beside(dir, model);
  c.train.precision = Precision::fp16;
  const auto report = run(c);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(report.error().message,
              testing::AllOf(testing::HasSubstr("q_proj.weight_scale_inv"), testing::HasSubstr("65504")));
}

TEST(PackedModels, AnotherBlockSizeThanAtTheBeginningIsNoticed) {
  const TrainDir dir;
  const std::string model = dir / "model";
  std::filesystem::copy(golden("llama_fp8"), model);
  Config c = beside(dir, model);
  ASSERT_TRUE(run(c));
  edit(model + "/config.json", "48", "47");
  c.model = read_model_directory(model).value();
  c.train.max_steps = 6;
  const auto report = run(c, {.resume = "auto"});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, testing::HasSubstr("weight_block_size"));
}

TEST(PackedModels, AKeyForPlansDoesNotOverrideADirectory) {
  const TrainDir dir;
  Config c = beside(dir, golden("llama_fp8"));
  c.model.quantization = {};
  const auto report = run(c);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::usage);
  EXPECT_THAT(report.error().message, testing::HasSubstr("model.quantization"));
}

TEST(PackedModels, AFormatThatTheConfigDoesNotNameIsRefused) {
  const TrainDir dir;
  const std::string model = dir / "model";
  std::filesystem::copy(golden("llama_nf4"), model);
  edit(model + "/config.json", "\"bnb_4bit_use_double_quant\": false", "\"bnb_4bit_use_double_quant\": true");
  const auto report = run(beside(dir, model));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(report.error().message, testing::AllOf(testing::HasSubstr("nf4, double quantized"),
                                                     testing::HasSubstr("quantization_config")));
}

}  // namespace tidepool::test::packed_models_test
