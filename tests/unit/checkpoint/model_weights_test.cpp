// Names and types that files of weights may have: either name of a tied pair, names without the base model's
// prefix, F64. Each variant loads and exports as the file with the model's own names.
#include "huggingface/weights/model_weights.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "checkpoint/export_model.h"
#include "huggingface/weights/convert.h"
#include "huggingface/weights/load_weights.h"
#include "huggingface/weights/unused_tensors.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/file_text.h"
#include "tests/support/model_directory.h"

namespace tidepool::test::model_weights_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A model's tensors by name, written as one file or as several.
struct NamedTensors {
  struct Content {
    Dtype dtype{};
    std::vector<u64> shape;
    std::vector<float> values;
  };
  std::map<std::string, Content> all;

  static NamedTensors read(const std::string& directory) {
    NamedTensors out;
    const auto model = SafetensorsModel::open(directory, ErrorKind::bad_input).value();
    for (const auto& file : model->files())
      for (const StoredTensor& t : file->tensors()) {
        std::vector<std::byte> bytes(t.bytes());
        EXPECT_TRUE(file->read(t, 0, bytes));
        Content& content = out.all[t.name];
        content = {t.dtype, t.shape, std::vector<float>(t.bytes() / dtype_bytes(t.dtype))};
        to_floats(t.dtype, bytes, content.values);
      }
    return out;
  }

  void rename(const std::function<std::string(const std::string&)>& name_of) {
    std::map<std::string, Content> renamed;
    for (auto& [name, content] : all) renamed[name_of(name)] = std::move(content);
    all = std::move(renamed);
  }

  void write(const std::string& directory, u64 files) const {
    std::string map;
    for (u64 f = 0; f < files; ++f) {
      const std::string file = files == 1 ? "model.safetensors" : fmt::format("part-{}.safetensors", f);
      std::vector<StoredTensor> tensors;
      std::string bytes;
      u64 number = 0;
      for (const auto& [name, content] : all) {
        if (number++ % files != f) continue;
        tensors.push_back({.name = name, .dtype = content.dtype, .shape = content.shape});
        std::vector<std::byte> stored(content.values.size() * dtype_bytes(content.dtype));
        from_floats(content.values, content.dtype, stored);
        bytes.append(reinterpret_cast<const char*>(stored.data()), stored.size());
        map += fmt::format("{}\"{}\": \"{}\"", map.empty() ? "" : ", ", name, file);
      }
      assign_offsets(tensors);
      write_text(directory + "/" + file, safetensors_header(tensors) + bytes);
    }
    if (files > 1) {
      std::filesystem::remove(directory + "/model.safetensors");
      write_text(directory + "/model.safetensors.index.json",
                 fmt::format("{{\"metadata\": {{}}, \"weight_map\": {{{}}}}}", map));
    }
  }
};

std::string without_prefix(const std::string& name) {
  return name.starts_with("model.") ? name.substr(6) : name;
}

class ModelWeights : public testing::TestWithParam<Family> {
 protected:
  ModelWeights() {
    config_.vocab_size = 31, config_.positions = 32, config_.width = 12, config_.layers = 2;
    config_.attention.heads = 2, config_.attention.kv_heads_given = 1, config_.softmax.head_size_given = 6,
    config_.mlp.inner_given = 5;
    if (config_.family == Family::gpt2)
      config_.attention.kv_heads_given = config_.softmax.head_size_given = 0;
    if (config_.experts.count != 0) config_.experts.count = 3, config_.experts.chosen = 2;
    config_.tied = true;
    write_model_directory(dir_.path(), config_, Precision::fp32);
    tensors_ = NamedTensors::read(dir_.path());
    embedding_ = config_.family == Family::gpt2 ? "wte.weight" : "model.embed_tokens.weight";
  }

  ModelGraph graph(Precision precision = Precision::fp32) const {
    return build_model(read_model_directory(dir_.path()).value(), precision, {.tokens = 8}, Precision::fp32)
        .value();
  }
  MemoryState loaded(Precision precision = Precision::fp32) {
    MemoryState state(graph(precision));
    const auto unused = load_weights(dir_.path(), graph(precision), state);
    EXPECT_TRUE(unused) << unused.error().message;
    if (unused && precision == Precision::fp32) EXPECT_THAT(*unused, unused_);
    return state;
  }
  void expect_loads_as(const MemoryState& wanted) {
    for (const u64 files : {1, 2, 3}) {
      tensors_.write(dir_.path(), files);
      EXPECT_TRUE(loaded() == wanted) << files;
      EXPECT_TRUE(check_all_tensors(dir_.path(), graph()));
      const std::string out = fmt::format("{}/export{}", dir_.path(), files);
      const auto exported = ModelExport::open(dir_.path(), {}).value();
      ASSERT_TRUE(exported->write(out, *create_posix_files(), [](u64) { return true; }));
      MemoryState again(graph());
      EXPECT_TRUE(load_weights(out, graph(), again));
      EXPECT_TRUE(again == wanted) << files;
      std::filesystem::remove_all(out);
      std::filesystem::remove(dir_.path() + "/model.safetensors");
    }
  }

  ModelConfig config_ = default_model(GetParam());
  const TemporaryDirectory dir_;
  NamedTensors tensors_;
  std::string embedding_;
  testing::Matcher<std::vector<std::string>> unused_ = IsEmpty();
};

INSTANTIATE_TEST_SUITE_P(Families, ModelWeights,
                         testing::Values(Family::gpt2, Family::llama, Family::gemma3_text, Family::qwen3_moe),
                         [](const auto& p) { return std::string(name(p.param)); });

TEST_P(ModelWeights, ATiedMatrixMayBeTheHeadsAlone) {
  const MemoryState wanted = loaded();
  tensors_.rename([&](const std::string& name) { return name == embedding_ ? head_tensor : name; });
  expect_loads_as(wanted);
  if (config_.family == Family::gpt2) return;
  tensors_.rename(without_prefix);
  expect_loads_as(wanted);
}

TEST_P(ModelWeights, NamesMayLackTheBaseModelsPrefix) {
  const MemoryState wanted = loaded();
  if (config_.family == Family::gpt2)
    tensors_.rename([](const std::string& name) { return "transformer." + name; });
  else
    tensors_.rename(without_prefix);
  expect_loads_as(wanted);
}

TEST_P(ModelWeights, BothNamesOfATiedPairMustHoldEqualValues) {
  const MemoryState wanted = loaded();
  if (config_.family != Family::gpt2) unused_ = ElementsAre(head_tensor);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    tensors_.all[head_tensor] = tensors_.all[embedding_];
    tensors_.all[head_tensor].dtype = dtype;
    for (const u64 files : {1, 2}) {
      tensors_.write(dir_.path(), files);
      EXPECT_TRUE(loaded() == wanted);
    }
    tensors_.all[head_tensor].values.back() += 0.25f;
    tensors_.write(dir_.path(), 2);
    MemoryState state(graph());
    const auto refused = load_weights(dir_.path(), graph(), state);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(refused.error().message, HasSubstr("lm_head.weight differs from " + embedding_));
    // Advice that keeps the model as transformers loads it.
    EXPECT_THAT(refused.error().message, config_.family == Family::gpt2
                                             ? HasSubstr("are not trained here")
                                             : HasSubstr("set tie_word_embeddings to false"));
    std::filesystem::remove(dir_.path() + "/model.safetensors.index.json");
  }
}

TEST_P(ModelWeights, F64IsRoundedToF32AndSaid) {
  const MemoryState wanted = loaded(), wanted16 = loaded(Precision::bf16);
  EXPECT_THAT(describe_rounded(dir_.path()), IsEmpty());
  for (auto& [name, content] : tensors_.all) content.dtype = Dtype::f64;
  expect_loads_as(wanted);
  tensors_.write(dir_.path(), 1);
  EXPECT_TRUE(loaded(Precision::bf16) == wanted16);
  EXPECT_THAT(describe_rounded(dir_.path()),
              ElementsAre(HasSubstr("tensors are F64; their values are rounded")));
}

TEST(ModelWeightsInFiles, ATensorUnderTwoNamesIsRefused) {
  const TemporaryDirectory dir;
  ModelConfig config = default_model(Family::llama);
  config.vocab_size = 31, config.width = 12, config.layers = 1, config.attention.heads = 2,
  config.mlp.inner_given = 5;
  write_model_directory(dir.path(), config, Precision::fp32);
  NamedTensors tensors = NamedTensors::read(dir.path());
  tensors.all["norm.weight"] = tensors.all["model.norm.weight"];
  tensors.write(dir.path(), 1);
  const auto opened = open_model_weights(dir.path(), config);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message,
              HasSubstr("model.norm.weight and norm.weight are one tensor of the model"));
}

TEST(ModelWeightsInFiles, F64IsRoundedToNearestAndRefusedBeyondF32) {
  const double doubles[] = {1.0 + 0x1p-25, 1.0 + 0x3p-24, -0x1p-149, 3.4028235e38};
  float floats[4];
  to_floats(Dtype::f64, std::as_bytes(std::span(doubles)), floats);
  EXPECT_THAT(floats, ElementsAre(1.0f, 1.0f + 0x1p-22f, -0x1p-149f, 0x1.fffffep127f));
  const TemporaryDirectory dir;
  ModelConfig config = default_model(Family::llama);
  config.vocab_size = 31, config.width = 12, config.layers = 1, config.attention.heads = 2,
  config.mlp.inner_given = 5;
  write_model_directory(dir.path(), config, Precision::fp32);
  NamedTensors tensors = NamedTensors::read(dir.path());
  tensors.all["model.norm.weight"].dtype = Dtype::f64;
  tensors.write(dir.path(), 1);
  // 1.0 becomes 1e39.
  const std::string path = dir.path() + "/model.safetensors";
  std::string text = file_text(path);
  const double huge = 1e39;
  const auto file = SafetensorsFile::open(path, ErrorKind::bad_input).value();
  std::memcpy(text.data() + file->offset_of(*file->find("model.norm.weight")), &huge, sizeof huge);
  write_text(path, text);
  const ModelGraph graph = build_model(config, Precision::bf16, {.tokens = 8}, Precision::fp32).value();
  MemoryState state(graph);
  const auto refused = load_weights(dir.path(), graph, state);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("tensor model.norm.weight has values beyond F32's 3.4e38"));
}

}  // namespace tidepool::test::model_weights_test
