// Tests model directories that are written anew, and weights in several files.
#include <gmock/gmock.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <functional>
#include <iterator>

#include "base/json/text.h"
#include "checkpoint/export_model.h"
#include "huggingface/weights/load_weights.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/file_text.h"
#include "tests/support/model_directory.h"
#include "tests/support/safetensors.h"

namespace tidepool::export_test {

namespace fs = std::filesystem;
using test::TemporaryDirectory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig small_llama() {
  ModelConfig m = default_model(Family::llama);
  m.vocab_size = 64, m.positions = 32, m.width = 32, m.layers = 2, m.attention.heads = 4,
  m.mlp.inner_given = 48, m.tied = false;
  return m;
}

bool go_on(u64) { return true; }

class Export : public ::testing::Test {
 protected:
  Export() { test::write_model_directory(source_, small_llama(), Precision::bf16); }

  Result<void> write(const ExportOptions& options = {}, const std::function<bool(u64)>& progress = go_on) {
    const auto model = ModelExport::open(source_, options);
    return model ? (*model)->write(out_, *create_posix_files(), progress) : Result<void>(model.error());
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(dir_.path())) out.push_back(entry.path().filename());
    std::ranges::sort(out);
    return out;
  }

  TemporaryDirectory dir_;
  const std::string source_ = dir_.path() + "/source", out_ = dir_.path() + "/out";
};

TEST_F(Export, CopiesEveryByteAndTheCarriedFiles) {
  test::write_byte_tokenizer(source_);
  test::write_file(source_ + "/notes.txt", "mine");
  fs::create_directory(source_ + "/additional_chat_templates");
  test::write_file(source_ + "/additional_chat_templates/tool_use.jinja", "tools");
  ASSERT_TRUE(write());
  for (const char* file : {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json",
                           "generation_config.json", "additional_chat_templates/tool_use.jinja"})
    EXPECT_EQ(test::file_text(out_ + "/" + file), test::file_text(source_ + "/" + file)) << file;
  EXPECT_FALSE(fs::exists(out_ + "/notes.txt"));
  EXPECT_THAT(names(), ElementsAre("out", "source"));
}

// Damaged files of a model.
TEST_F(Export, ParsesCarriedFilesAndRequiresAllFilesOfAnIndex) {
  test::write_byte_tokenizer(source_);
  const auto refused = [&](const std::string& name, const std::string& content, const std::string& reason) {
    const std::string path = source_ + "/" + name, good = test::file_text(path);
    test::write_file(path, content);
    const auto result = write();
    test::write_file(path, good);
    ASSERT_FALSE(result) << name << ": " << content;
    EXPECT_EQ(result.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(result.error().message, HasSubstr(path + ": "));
    EXPECT_THAT(result.error().message, HasSubstr(reason));
    EXPECT_THAT(names(), ElementsAre("source"));
  };
  refused("config.json", "", "not valid JSON at byte 0");
  refused("config.json", "{}", "has no model_type");
  refused("config.json", "[]", "has no model_type");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    const std::string good = test::file_text(source_ + "/" + name);
    refused(name, "", "not valid JSON");
    refused(name, good.substr(0, good.size() / 2), "not valid JSON");
    refused(name, good + "}", "not valid JSON");
  }
  ASSERT_TRUE(write({.max_shard_size = Bytes{9'000}}));
  const auto index = [&](const std::string& name) { return fs::path(out_) / name; };
  const std::string text = test::file_text(index("model.safetensors.index.json"));
  std::string short_text;  // an index without tensors of the last file, which exists
  const auto model = SafetensorsModel::open(out_, ErrorKind::bad_input).value();
  std::string last;
  for (const auto& file : model->files()) last = std::max(last, file->path());
  const std::string last_name = fs::path(last).filename();
  boost::json::value root = parse_json(text, ErrorKind::bad_input, "index").value();
  auto& map = root.as_object()["weight_map"].as_object();
  for (auto at = map.begin(); at != map.end();)
    at = at->value() == boost::json::value(last_name) ? map.erase(at) : std::next(at);
  test::write_file(index("model.safetensors.index.json"), json_text(root, JsonStyle::pretty));
  const auto open = ModelExport::open(out_, {});
  ASSERT_FALSE(open);
  EXPECT_THAT(open.error().message, HasSubstr("model.safetensors.index.json: names "));
  EXPECT_THAT(open.error().message, HasSubstr(" says that there are "));
}

TEST_F(Export, SaysBeforehandHowMuchItWillWrite) {
  test::write_byte_tokenizer(source_);
  const auto model = ModelExport::open(source_, {.max_shard_size = Bytes{10'000}}).value();
  ASSERT_TRUE(model->write(out_, *create_posix_files(), go_on));
  u64 bytes = 0;
  for (const auto& entry : fs::directory_iterator(out_))
    if (entry.path().filename() != weights_index_file) bytes += entry.file_size();
  EXPECT_EQ(model->bytes().value, bytes);
}

TEST_F(Export, SeveralFilesHoldTheSameTensors) {
  ASSERT_TRUE(write({.max_shard_size = Bytes{9'000}}));
  const auto before = SafetensorsModel::open(source_, ErrorKind::bad_input).value();
  const auto after = SafetensorsModel::open(out_, ErrorKind::bad_input).value();
  EXPECT_GT(after->files().size(), 2u);
  for (const StoredTensor& t : before->files()[0]->tensors()) {
    const auto at = after->find(t.name);
    ASSERT_TRUE(at) << t.name;
    std::vector<std::byte> a(t.bytes()), b(t.bytes());
    ASSERT_TRUE(before->files()[0]->read(t, 0, a));
    ASSERT_TRUE(at.file->read(*at.tensor, 0, b));
    EXPECT_EQ(a, b) << t.name;
  }
  EXPECT_THAT(test::file_text(out_ + "/model.safetensors.index.json"), HasSubstr("\"total_size\""));
}

TEST_F(Export, ConvertsToNearestAndSaysSoInTheConfig) {
  ASSERT_TRUE(write({.dtype = Precision::fp32}));
  const test::Safetensors narrow(source_ + "/model.safetensors"), wide(out_ + "/model.safetensors");
  for (const std::string& name : narrow.names()) {
    const std::vector<u16> halves = narrow.get<u16>(name);
    const std::vector<u32> words = wide.get<u32>(name);
    ASSERT_EQ(halves.size(), words.size());
    for (std::size_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], u32{halves[i]} << 16) << name;
  }
  EXPECT_THAT(test::file_text(out_ + "/config.json"), HasSubstr("\"torch_dtype\": \"float32\""));
}

TEST(Convert, RoundsToNearestEven) {
  const std::vector<float> in = {1.0f, 1.00390625f, 1.01171875f, -0.0f, INFINITY};  // two ties
  std::vector<u16> out(in.size());
  from_floats(in, Dtype::bf16, std::as_writable_bytes(std::span(out)));
  EXPECT_THAT(out, ElementsAre(0x3f80, 0x3f80, 0x3f82, 0x8000, 0x7f80));
  std::vector<float> back(in.size());
  to_floats(Dtype::bf16, std::as_bytes(std::span(out)), back);
  EXPECT_EQ(back[2], 1.015625f);
}

// Adds one to each element, and records the rows that it saw.
class AddOne final : public TensorChange {
 public:
  bool changes(std::string_view tensor) const override { return tensor.ends_with("q_proj.weight"); }
  Result<void> apply(std::string_view, std::span<const u64> shape, u64 begin,
                     std::span<float> values) override {
    EXPECT_EQ(begin % shape.back(), 0u);
    EXPECT_EQ(values.size() % shape.back(), 0u);
    for (float& v : values) v += 1;
    return {};
  }
};

TEST_F(Export, ChangesTensorsOnTheirWay) {
  AddOne change;
  ASSERT_TRUE(write({.dtype = Precision::fp32, .change = &change}));
  const test::Safetensors before(source_ + "/model.safetensors"), after(out_ + "/model.safetensors");
  for (const std::string& name : before.names()) {
    const std::vector<u16> halves = before.get<u16>(name);
    const std::vector<float> now = after.get<float>(name);
    const float more = change.changes(name) ? 1 : 0;
    for (std::size_t i = 0; i < now.size(); ++i)
      ASSERT_EQ(now[i], std::bit_cast<float>(u32{halves[i]} << 16) + more) << name;
  }
}

TEST_F(Export, RefusesAnExistingDirectory) {
  fs::create_directory(out_);
  EXPECT_EQ(write().error().kind, ErrorKind::usage);
  EXPECT_TRUE(fs::is_empty(out_));
}

TEST_F(Export, LeavesNothingWhenStopped) {
  const Result<void> stopped = write({}, [](u64) { return false; });
  EXPECT_EQ(stopped.error().kind, ErrorKind::interrupted);
  EXPECT_THAT(names(), ElementsAre("source"));
}

TEST_F(Export, RefusesOtherDirectoriesAndTypesThatItCannotConvert) {
  EXPECT_THAT(ModelExport::open(dir_.path(), {}).error().message, HasSubstr("holds no config.json"));
  std::vector<StoredTensor> f8 = {{.name = "a", .dtype = Dtype::f8_e4m3, .shape = {8}}};
  assign_offsets(f8);
  test::write_file(source_ + "/model.safetensors", safetensors_header(f8) + std::string(8, 'x'));
  EXPECT_THAT(ModelExport::open(source_, {.dtype = Precision::bf16}).error().message,
              HasSubstr("tensor a is F8_E4M3"));
  EXPECT_TRUE(ModelExport::open(source_, {}));
}

TEST(Shards, AreFilledOneAfterTheOtherAndNoTensorIsCut) {
  const auto tensor = [](const char* name, u64 n) {
    return StoredTensor{.name = name, .dtype = Dtype::u8, .shape = {n}};
  };
  const auto shards = shards_of(
      {tensor("a", 5), tensor("b", 5), tensor("c", 1), tensor("d", 30), tensor("e", 0), tensor("f", 10)},
      Bytes{10});
  std::vector<std::string> text;
  for (const Shard& shard : shards) {
    std::string line = shard.file + ":";
    for (const StoredTensor& t : shard.tensors) line += fmt::format(" {}@{}", t.name, t.begin);
    text.push_back(line);
  }
  EXPECT_THAT(
      text,
      ElementsAre("model-00001-of-00004.safetensors: a@0 b@5", "model-00002-of-00004.safetensors: c@0",
                  "model-00003-of-00004.safetensors: d@0 e@30", "model-00004-of-00004.safetensors: f@0"));
  EXPECT_EQ(shards_of({tensor("a", 5)}, Bytes{1})[0].file, "model.safetensors");
  EXPECT_TRUE(is_weights_file("model-00001-of-00004.safetensors"));
  EXPECT_FALSE(is_weights_file("optimizer.safetensors"));
}

class ShardedCheckpoint : public ::testing::TestWithParam<Precision> {
 protected:
  CheckpointOptions options(Bytes most) {
    return {.run_dir = dir_.path(), .buffer = Bytes{64 * kib}, .max_shard_size = most};
  }
  const ModelGraph graph_ = test::tiny_graph(GetParam());
  const TemporaryDirectory dir_;
};
INSTANTIATE_TEST_SUITE_P(Precisions, ShardedCheckpoint,
                         ::testing::Values(Precision::fp32, Precision::bf16, Precision::fp16),
                         [](const auto& p) { return std::string(name(p.param)); });

TEST_P(ShardedCheckpoint, IsSavedVerifiedAndRestored) {
  test::MemoryState state(graph_), again(graph_);
  state.randomise(graph_, 3);
  state.make_finite(graph_);
  const auto store = CheckpointStore::create(options(Bytes{4'000}), graph_).value();
  const SavedCheckpoint saved = store->save(test::some_state(3), state).value();
  EXPECT_TRUE(fs::exists(saved.path + "/model.safetensors.index.json"));
  EXPECT_EQ(store->weights_xxh3(state).value(), saved.weights_xxh3);
  // Another shard size is not a sign of another model.
  const auto other = CheckpointStore::create(options(Bytes{1'000'000'000}), graph_).value();
  const Resumable found = other->find_resumable().value();
  ASSERT_TRUE(found.found);
  ASSERT_TRUE(other->restore(*found.found, again));
  EXPECT_TRUE(state == again);
  EXPECT_TRUE(verify_model(saved.path, Bytes{64 * kib}));
  EXPECT_TRUE(load_weights(saved.path, graph_, again));
}

TEST_P(ShardedCheckpoint, EveryFileOfItsWeightsIsVerified) {
  test::MemoryState state(graph_);
  state.randomise(graph_, 3);
  const auto store = CheckpointStore::create(options(Bytes{4'000}), graph_).value();
  const std::string path = store->save(test::some_state(3), state).value().path;
  for (const auto& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename(), good = test::file_text(entry.path());
    if (!is_weights_file(name)) continue;
    std::string bad = good;
    bad[bad.size() - 2] ^= 1;
    test::write_file(entry.path(), bad);
    EXPECT_THAT(verify_model(path, Bytes{64 * kib}).error().message, HasSubstr(name));
    const Resumable found = test::find_and_restore(*store, graph_);
    EXPECT_FALSE(found.found);
    EXPECT_THAT(found.stepped_over.at(0).reason, HasSubstr(name));
    fs::remove(entry.path());
    EXPECT_EQ(verify_model(path, Bytes{64 * kib}).error().kind, ErrorKind::corrupt_checkpoint);
    test::write_file(entry.path(), good);
  }
  EXPECT_TRUE(verify_model(path, Bytes{64 * kib}));
}

TEST_F(Export, RefusesValuesThatFp16CannotHold) {
  const auto model = SafetensorsModel::open(source_, ErrorKind::bad_input).value();
  const SafetensorsModel::Location norm = model->find("model.norm.weight");
  ASSERT_TRUE(norm);
  std::string file = test::file_text(source_ + "/model.safetensors");
  const u64 at = norm.file->offset_of(*norm.tensor) + 2 * 5;
  file[at] = '\x74', file[at + 1] = '\x49';  // 999,424 in bf16
  test::write_file(source_ + "/model.safetensors", file);
  const auto refused = write({.dtype = Precision::fp16});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(refused.error().message, HasSubstr("model.norm.weight has values beyond fp16"));
  EXPECT_THAT(names(), ElementsAre("source"));
  EXPECT_TRUE(write({.dtype = Precision::fp32}));
}

TEST_F(Export, SaysThatAParentIsNoDirectory) {
  test::write_file(dir_.path() + "/file", "");
  const auto refused =
      ModelExport::open(source_, {}).value()->write(dir_.path() + "/file/out", *create_posix_files(), go_on);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_THAT(refused.error().message, HasSubstr("/file is not a directory"));
}

}  // namespace tidepool::export_test
