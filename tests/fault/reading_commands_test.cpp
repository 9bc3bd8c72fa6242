// eval, generate and export verify the files of a checkpoint that they use, and read a run whose checkpoints
// are rotated away meanwhile.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "inference/evaluate.h"
#include "inference/export_source.h"
#include "inference/generate.h"
#include "tests/support/child_run.h"
#include "tests/support/file_text.h"
#include "tests/support/kept_model_fixture.h"
#include "tests/support/places.h"

namespace tidepool::reading_commands_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ReadingCommands : public test::KeptModelTest {
 protected:
  size_t checkpoints_there() const {
    const Result<std::vector<u64>> steps = checkpoint_steps(run_);
    return steps ? steps->size() : 0;
  }
  Result<void> generate(const std::string& path) const {
    return generate_text({.path = path,
                          .overrides = {},
                          .generate = {.prompt = "tide", .max_new_tokens = 3, .temperature = 0},
                          .seed = 1,
                          .threads = 2,
                          .note = [](const std::string&) {}},
                         [](std::string_view) {});
  }
};

// Not only weights.
TEST_F(ReadingCommands, VerifyEveryFileOfTheModel) {
  ASSERT_TRUE(test::run(config_));
  const std::string checkpoint = run_ + "/checkpoint-4";
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json",
                           "model.safetensors"}) {
    const std::string path = checkpoint + "/" + name, good = test::file_text(path);
    std::string bad = good;
    bad[good.size() / 2] = static_cast<char>(bad[good.size() / 2] ^ 1);
    test::write_file(path, bad);
    const auto refused = [&](const auto& result) {
      ASSERT_FALSE(result) << name;
      EXPECT_EQ(result.error().kind, ErrorKind::corrupt_checkpoint);
      EXPECT_THAT(result.error().message, HasSubstr(path + ": XXH3 is"));
    };
    refused(evaluate_model({.source = checkpoint, .quiet = true}));
    refused(generate(checkpoint));
    refused(find_export_source(checkpoint, ""));
    const auto of_run = find_export_source(run_, "");
    ASSERT_TRUE(of_run) << of_run.error().message;
    EXPECT_EQ(of_run->directory, run_ + "/checkpoint-2");
    EXPECT_THAT(of_run->notes.at(0), AllOf(HasSubstr("skipped"), HasSubstr(name)));
    test::write_file(path, good);
  }
  // Files that only training needs are not checked.
  test::write_file(checkpoint + "/optimizer.safetensors", "gone");
  EXPECT_TRUE(evaluate_model({.source = checkpoint, .quiet = true}));
}

// The weights also fit a model with other heads, whose results would be meaningless.
TEST_F(ReadingCommands, ComputeTheModelThatWasTrained) {
  ASSERT_TRUE(test::run(config_));
  const auto is_refused = [&](const Result<void>& r, const std::string& key) {
    ASSERT_FALSE(r) << key;
    EXPECT_EQ(r.error().kind, ErrorKind::usage);
    EXPECT_THAT(r.error().message, AllOf(HasSubstr("is another model: " + key), HasSubstr("/config.yaml")));
  };
  const auto evaluate = [&](std::vector<std::string> overrides) -> Result<void> {
    TRY(evaluate_model({.source = run_, .overrides = std::move(overrides), .quiet = true}));
    return {};
  };
  EXPECT_TRUE(evaluate({}));
  is_refused(evaluate({"model.rms_norm_eps=0.5"}), "rms_norm_eps");
  const std::string path = run_ + "/config.yaml", written = test::file_text(path);
  std::string changed = written;
  const std::string key = "num_attention_heads: ";
  changed.replace(changed.find(key) + key.size(), 1, "2");
  ASSERT_NE(changed, written);
  test::write_file(path, changed);
  is_refused(evaluate({}), "num_attention_heads");
  is_refused(generate(run_), "num_attention_heads");
  test::write_file(path, written.substr(0, 40));
  const auto cut_off = evaluate({});
  ASSERT_FALSE(cut_off);
  EXPECT_THAT(cut_off.error().message, HasSubstr("config.yaml was cut off, damaged or changed"));
}

TEST_F(ReadingCommands, NameALinkThatLeadsNowhere) {
  ASSERT_TRUE(test::run(config_));
  const std::string newest = newest_checkpoint(run_);
  fs::rename(newest, dir_ / "elsewhere");
  fs::create_directory_symlink(dir_ / "unmounted", newest);
  const auto refused = evaluate_model({.source = newest_checkpoint(run_), .quiet = true});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr(newest));
  const auto of_run = evaluate_model({.source = run_, .quiet = true});
  ASSERT_FALSE(of_run);
  EXPECT_THAT(of_run.error().message, AllOf(HasSubstr(newest), ::testing::Not(HasSubstr("rotates"))));
}

TEST_F(ReadingCommands, ExportRequiresEveryTensorOfTheModel) {
  const std::string path = model_ + "/model.safetensors";
  const auto file = SafetensorsFile::open(path, ErrorKind::bad_input).value();
  std::vector<StoredTensor> tensors(file->tensors().begin(), file->tensors().end());
  const std::string data = test::file_text(path).substr(file->offset_of(tensors[0]));
  const StoredTensor last = tensors.back();
  tensors.pop_back();
  test::write_file(path, safetensors_header(tensors) + data.substr(0, tensors.back().end));
  const auto refused = find_export_source(model_, "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(refused.error().message, HasSubstr("has no tensor " + last.name));
}

// The run saves and rotates several times a second while it is read.
TEST_F(ReadingCommands, TakeTheNextCheckpointIfRotationDeletesOne) {
  config_.output.save_steps = under_sanitizer() ? 48 : 24;  // readers are slower than steps there
  config_.output.save_total_limit = 1;
  config_.train.max_steps = 100'000;
  test::ChildRun child(config_);
  while (!child.ended() && checkpoints_there() == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (u32 i = 0; i < 6 && !child.ended(); ++i) {
    const auto evaluated = evaluate_model({.source = run_, .quiet = true});
    EXPECT_TRUE(evaluated) << evaluated.error().message;
    const auto generated = generate(run_);
    EXPECT_TRUE(generated) << generated.error().message;
    const auto found = find_weights(run_, Bytes{64 * kib});
    EXPECT_TRUE(found) << found.error().message;
  }
  EXPECT_FALSE(child.ended()) << child.output();
}

// The same without a run, a thousand times: each checkpoint exists only for an instant.
TEST(FindWeights, IsNotDisturbedByRotation) {
  const ModelGraph graph = test::tiny_graph(Precision::fp32);
  const test::TemporaryDirectory dir;
  const auto store = test::open_store(dir.path(), graph);
  test::MemoryState state(graph);
  state.randomise(graph, 1);
  ASSERT_TRUE(store->save(test::some_state(1), state));
  std::atomic<bool> stop = false;
  std::thread run([&] {
    for (u64 step = 2; !stop; ++step) {
      EXPECT_TRUE(store->save(test::some_state(step), state));
      EXPECT_TRUE(store->rotate({.saved_step = step, .total_limit = 1}));
    }
  });
  for (u32 i = 0; i < 1000; ++i) {
    const auto found = find_weights(dir.path(), Bytes{64 * kib});
    EXPECT_TRUE(found) << found.error().message;
    if (!found) break;
    EXPECT_TRUE(found->path);
    EXPECT_TRUE(found->stepped_over.empty()) << found->stepped_over[0].reason;
  }
  stop = true;
  run.join();
}

}  // namespace tidepool::reading_commands_test
