// Experts in files that have all of a layer in one tensor: loading, checkpoints and hashes, across groups of
// experts and the parts in which files are read; and files that are refused.
#include "huggingface/weights/expert_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/convert.h"
#include "huggingface/weights/load_weights.h"
#include "huggingface/weights/tensor_hashes.h"
#include "model/blocks.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/file_text.h"

namespace tidepool::test::expert_files_test {

using testing::HasSubstr;

struct Case {
  Family family;
  bool joined;
  u32 width = 12, inner = 5;
};

ModelConfig config_of(const Case& c) {
  ModelConfig config = default_model(c.family);
  config.vocab_size = 31, config.positions = 32;
  config.width = c.width, config.layers = 2, config.attention.heads = 2, config.attention.kv_heads_given = 1;
  config.mlp.inner_given = c.inner, config.softmax.head_size_given = 4;
  config.experts.count = 3, config.experts.chosen = 2, config.experts.inner_given = c.inner;
  config.experts.joined_files = c.joined;
  return config;
}

ModelGraph graph_of(const ModelConfig& config, Precision precision = Precision::fp32, u32 group = 0) {
  return build_model(config, precision, {.tokens = 8}, Precision::fp32, {}, group).value();
}

// A tensor of a file, all of whose elements are different.
struct FileContent {
  std::vector<StoredTensor> tensors;
  std::string bytes;

  void add(const std::string& name, std::vector<u64> shape) {
    tensors.push_back({.name = name, .dtype = Dtype::f32, .shape = std::move(shape)});
    u64 elements = 1;
    for (const u64 extent : tensors.back().shape) elements *= extent;
    for (u64 i = 0; i < elements; ++i) {
      const float value = 1.0f + static_cast<float>(bytes.size() / sizeof(float)) / 0x1p23f;
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    assign_offsets(tensors);
  }
  void write(const std::string& directory) const {
    write_text(directory + "/model.safetensors", safetensors_header(tensors) + bytes);
  }
};

FileContent content_of(const ModelGraph& graph, ExpertForm form) {
  FileContent content;
  for (const FileTensor& t : file_tensors(graph, form)) content.add(t.name, t.shape);
  return content;
}

class ExpertFiles : public testing::TestWithParam<Case> {
 protected:
  const ModelConfig config_ = config_of(GetParam());
  const TemporaryDirectory dir_;

  void write_model(const FileContent& content) {
    write_text(dir_.path() + "/config.json", hf_config_text(config_, Precision::fp32));
    content.write(dir_.path());
  }
};

// Element i of a file's tensor is in the window where file_tensors() says it is.
TEST_P(ExpertFiles, AreLoadedIntoEveryGroupAndHashedAsTheyLie) {
  const FileContent content = content_of(graph_of(config_), form_of_files(config_));
  write_model(content);
  TensorHashes expected;
  for (const StoredTensor& t : content.tensors) {
    TensorHash hash;
    hash.update(std::as_bytes(std::span(content.bytes)).subspan(t.begin, t.bytes()));
    expected.add(t, hash.digest());
  }
  for (const u32 group : {1u, 2u, 3u}) {
    const ModelGraph graph = graph_of(config_, Precision::fp32, group);
    MemoryState state(graph);
    std::string xxh3;
    const auto unused = load_weights(dir_.path(), graph, state, WeightsOf::model, &xxh3);
    ASSERT_TRUE(unused) << unused.error().message;
    EXPECT_THAT(*unused, testing::IsEmpty());
    EXPECT_EQ(xxh3, expected.text());
    u64 at = 0;
    for (const FileTensor& file : file_tensors(graph, form_of_files(config_)))
      for (const FileTensor::Part& part : file.parts) {
        const Tensor& t = graph.windows[part.window].tensors[part.tensor];
        const auto& window = state.bytes().at({part.window, Kind::param});
        const u64 bytes = t.elements * sizeof(float);
        EXPECT_EQ(
            std::memcmp(window.data() + t.window_offset * sizeof(float), content.bytes.data() + at, bytes), 0)
            << t.name;
        at += bytes;
      }
    EXPECT_EQ(at, content.bytes.size());
  }
}

TEST_P(ExpertFiles, AreSavedInTheFormInWhichTheyWereReadAndRestored) {
  const FileContent content = content_of(graph_of(config_), form_of_files(config_));
  write_model(content);
  const ModelConfig config = read_model_directory(dir_.path()).value();
  EXPECT_EQ(form_of_files(config), form_of_files(config_));
  const ModelGraph graph = graph_of(config, Precision::fp32, 2);
  MemoryState state(graph);
  state.randomise(graph, 3);
  ASSERT_TRUE(load_weights(dir_.path(), graph, state));
  const auto store = open_store(dir_.path() + "/run", graph);
  const auto saved = store->save(some_state(1), state);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(saved->weights_xxh3, store->weights_xxh3(state).value());
  const std::string text = file_text(saved->path + "/model.safetensors");
  EXPECT_EQ(text.substr(safetensors_header(content.tensors).size()), content.bytes);
  EXPECT_EQ(text, safetensors_header(content.tensors) + content.bytes);
  // A run whose model directory has gone knows the form from its checkpoint.
  ModelConfig other = config;
  other.experts.joined_files = !config.experts.joined_files;
  const ModelGraph other_graph = graph_of(other, Precision::fp32, 1);
  const auto again = open_store(dir_.path() + "/run", other_graph);
  const Resumable found = again->find_resumable().value();
  ASSERT_TRUE(found.found);
  MemoryState restored(other_graph);
  const auto read = again->restore(*found.found, restored);
  ASSERT_TRUE(read) << read.error().message;
  const auto second = again->save(some_state(2), restored);
  ASSERT_TRUE(second) << second.error().message;
  for (const char* file : {"/model.safetensors", "/optimizer.safetensors"})
    EXPECT_EQ(file_text(second->path + file), file_text(saved->path + file)) << file;
}

TEST_P(ExpertFiles, DamagedWeightsAreNotRestored) {
  const ModelGraph graph = graph_of(config_);
  MemoryState state(graph);
  state.randomise(graph, 5);
  const auto store = open_store(dir_.path() + "/run", graph);
  const std::string path = store->save(some_state(1), state).value().path;
  const auto found = store->open(path);
  ASSERT_TRUE(found);
  std::string text = file_text(path + "/model.safetensors");
  text.back() ^= 1;
  write_text(path + "/model.safetensors", text);
  MemoryState restored(graph);
  const auto read = store->restore(*found, restored);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::corrupt_checkpoint);
  EXPECT_THAT(read.error().message, HasSubstr("model.safetensors"));
  EXPECT_FALSE(restored.finished);
}

// Matrices of gpt-oss in these sizes begin and end within the MiBs that are hashed.
INSTANTIATE_TEST_SUITE_P(Cases, ExpertFiles,
                         testing::Values(Case{Family::qwen3_moe, false}, Case{Family::qwen3_moe, true},
                                         Case{Family::mixtral, false}, Case{Family::mixtral, true},
                                         Case{Family::gpt_oss, false}, Case{Family::gpt_oss, false, 260, 530},
                                         Case{Family::qwen3_moe, true, 256, 512}),
                         [](const auto& info) {
                           return fmt::format("{}_{}_{}", name(info.param.family),
                                              info.param.joined ? "joined" : "own", info.param.width);
                         });

class RefusedExpertFiles : public testing::Test {
 protected:
  const ModelConfig config_ = config_of({Family::qwen3_moe, true});
  const ModelGraph graph_ = graph_of(config_);
  const TemporaryDirectory dir_;
  FileContent joined_ = content_of(graph_, ExpertForm::joined),
              single_ = content_of(graph_, ExpertForm::single);

  std::string message(const FileContent& content) {
    content.write(dir_.path());
    MemoryState state(graph_);
    const auto loaded = load_weights(dir_.path(), graph_, state);
    EXPECT_FALSE(loaded);
    EXPECT_FALSE(state.finished);
    const auto checked = check_all_tensors(dir_.path(), graph_);
    EXPECT_FALSE(checked);
    if (loaded || checked) return "";
    EXPECT_EQ(loaded.error().kind, ErrorKind::bad_input);
    EXPECT_EQ(loaded.error().message, checked.error().message);
    EXPECT_THAT(loaded.error().message, HasSubstr("model.safetensors: "));
    return loaded.error().message;
  }
  // RETURNS: the content without a tensor.
  static FileContent without(const FileContent& content, std::string_view name) {
    FileContent out;
    for (const StoredTensor& t : content.tensors)
      if (t.name != name) out.add(t.name, t.shape);
    return out;
  }
};

TEST_F(RefusedExpertFiles, OfBothForms) {
  joined_.add("model.layers.1.mlp.experts.2.up_proj.weight", {5, 12});
  EXPECT_THAT(message(joined_),
              HasSubstr("tensor model.layers.1.mlp.experts.2.up_proj.weight holds one expert, but "
                        "model.layers.0.mlp.experts.gate_up_proj holds all experts of a layer"));
}

TEST_F(RefusedExpertFiles, WithAMissingExpert) {
  const char* name = "model.layers.1.mlp.experts.2.up_proj.weight";
  EXPECT_THAT(message(without(single_, name)), HasSubstr(fmt::format("has no tensor {}", name)));
}

TEST_F(RefusedExpertFiles, WithAMissingJoinedTensor) {
  const char* name = "model.layers.0.mlp.experts.down_proj";
  EXPECT_THAT(message(without(joined_, name)), HasSubstr(fmt::format("has no tensor {}", name)));
}

TEST_F(RefusedExpertFiles, WithAnExpertTooMany) {
  single_.add("model.layers.1.mlp.experts.3.up_proj.weight", {5, 12});
  EXPECT_THAT(message(single_),
              HasSubstr("tensor model.layers.1.mlp.experts.3.up_proj.weight is of expert 3, "
                        "but num_experts in config.json is 3"));
}

TEST_F(RefusedExpertFiles, WithAnotherNumberOfJoinedExperts) {
  for (const u64 experts : {2, 4}) {
    const char* name = "model.layers.0.mlp.experts.gate_up_proj";
    FileContent content = without(joined_, name);
    content.add(name, {experts, 10, 12});
    EXPECT_THAT(message(content), HasSubstr(fmt::format("tensor {} is [{}, 10, 12], but the model's config "
                                                        "needs [3, 10, 12]",
                                                        name, experts)));
  }
}

TEST_F(RefusedExpertFiles, ExpertsOfLayersBeyondTheModelAreOnlyUnused) {
  single_.add("model.layers.2.mlp.experts.9.up_proj.weight", {5, 12});
  single_.write(dir_.path());
  MemoryState state(graph_);
  const auto unused = load_weights(dir_.path(), graph_, state);
  ASSERT_TRUE(unused) << unused.error().message;
  EXPECT_THAT(*unused, testing::ElementsAre("model.layers.2.mlp.experts.9.up_proj.weight"));
}

}  // namespace tidepool::test::expert_files_test
