#include <fmt/format.h>
#include <gmock/gmock.h>

#include <bit>

#include "checkpoint/manifest.h"
#include "checkpoint/names.h"
#include "huggingface/directory/hf_config.h"
#include "huggingface/weights/load_weights.h"
#include "huggingface/weights/safetensors.h"
#include "tests/support/checkpoint_fixture.h"
#include "tests/support/file_text.h"
#include "tests/support/places.h"

namespace tidepool::store_test {

using test::file_text;
using test::MemoryState;
using test::open_store;
using test::some_state;
using test::TemporaryDirectory;
using test::tiny_graph;
using test::write_text;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Checkpoint : public ::testing::TestWithParam<Precision> {
 protected:
  ModelGraph graph_ = tiny_graph(GetParam());
  TemporaryDirectory dir_;
  std::unique_ptr<CheckpointStore> store_ = open_store(dir_.path(), graph_);

  // The state of a step is a function of the step.
  MemoryState state_at(u64 step) {
    MemoryState state(graph_);
    state.randomise(graph_, step);
    return state;
  }
  SavedCheckpoint save(u64 step) {
    MemoryState state = state_at(step);
    auto saved = store_->save(some_state(step), state);
    CHECK(saved.has_value(), saved.error().message);
    return *saved;
  }
  void expect_restores(const FoundCheckpoint& found, u64 step) {
    MemoryState state(graph_);
    ASSERT_TRUE(store_->restore(found, state).has_value());
    EXPECT_TRUE(state.finished);
    EXPECT_TRUE(state == state_at(step));
    EXPECT_EQ(found.state, some_state(step));
  }
};
INSTANTIATE_TEST_SUITE_P(Precisions, Checkpoint,
                         ::testing::Values(Precision::fp32, Precision::bf16, Precision::fp16),
                         [](const auto& p) { return std::string(name(p.param)); });

TEST_P(Checkpoint, RoundTripsToTheBit) {
  const SavedCheckpoint saved = save(3);
  const auto found = store_->find_resumable();
  ASSERT_TRUE(found.has_value()) << found.error().message;
  ASSERT_TRUE(found->found.has_value());
  EXPECT_TRUE(found->stepped_over.empty());
  EXPECT_EQ(found->found->path, saved.path);
  EXPECT_EQ(found->found->weights_xxh3, saved.weights_xxh3);
  expect_restores(*found->found, 3);
  u64 bytes = 0;
  for (const auto& f : std::filesystem::directory_iterator(saved.path)) bytes += f.file_size();
  EXPECT_EQ(saved.bytes.value, bytes);
  EXPECT_LT(bytes - checkpoint_bytes(graph_).value, 8 * kib);
}

TEST_P(Checkpoint, WeightsHashDependsOnTheStateAlone) {
  MemoryState state = state_at(3);
  const u64 saved = save(3).weights_xxh3;
  EXPECT_EQ(store_->weights_xxh3(state).value(), saved);
  state.bytes()[{0, Kind::param}][5] ^= std::byte{1};
  EXPECT_NE(store_->weights_xxh3(state).value(), saved);
}

TEST_P(Checkpoint, TheSameStateGivesTheSameBytesWithAnyBuffer) {
  const SavedCheckpoint a = save(3);
  const TemporaryDirectory other;
  auto store = CheckpointStore::create({.run_dir = other.path(), .buffer = Bytes{1 * mib}}, graph_).value();
  MemoryState state = state_at(3);
  const SavedCheckpoint b = store->save(some_state(3), state).value();
  for (const char* file :
       {"model.safetensors", "optimizer.safetensors", "config.json", "trainer_state.json", "manifest.json"}) {
    EXPECT_EQ(file_text(a.path + "/" + file), file_text(b.path + "/" + file)) << file;
  }
}

TEST_P(Checkpoint, AnyFlippedBitIsFoundAndTheCheckpointBeforeIsUsed) {
  save(1);
  const SavedCheckpoint newest = save(2);
  u64 random = 12345;
  for (const auto& entry : std::filesystem::directory_iterator(newest.path)) {
    const std::string path = entry.path().string();
    const std::string good = file_text(path);
    // Flips every bit of the manifest, and a sample of bits of other files. A sanitizer looks at what a
    // reader does with a flipped byte: for it, one bit of nearly every byte.
    const bool every_bit = path.ends_with("manifest.json");
    const u64 trials = every_bit ? 8 * good.size() : 12, stride = every_bit && under_sanitizer() ? 7 : 1;
    for (u64 i = 0; i < trials; i += stride) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const u64 bit = every_bit ? i : (random >> 20) % (8 * good.size());
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      write_text(path, bad);
      const Resumable found = test::find_and_restore(*store_, graph_);
      ASSERT_EQ(found.stepped_over.size(), 1u) << path << " bit " << bit;
      EXPECT_THAT(found.stepped_over[0].reason, HasSubstr(path));
      ASSERT_TRUE(found.found.has_value());
      EXPECT_EQ(found.found->state.step, 1u);
    }
    write_text(path, good);
  }
  EXPECT_EQ(store_->find_resumable()->found->state.step, 2u);
}

// Files of a resume are hashed in the pass that restores them. The file is sound when it is found,
// and damaged when it is used.
TEST_P(Checkpoint, RestoredTensorsAreHashedWhileTheyAreRead) {
  const SavedCheckpoint newest = save(2);
  const FoundCheckpoint found = *store_->find_resumable().value().found;
  const std::string path = newest.path + "/optimizer.safetensors", good = file_text(path);
  for (const u64 at : {good.size() - 1, good.size() / 2, u64{9}}) {  // data, data, header
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 16);
    write_text(path, bad);
    MemoryState state(graph_);
    const Result<void> restored = store_->restore(found, state);
    ASSERT_FALSE(restored) << at;
    EXPECT_EQ(restored.error().kind, ErrorKind::corrupt_checkpoint);
    EXPECT_THAT(restored.error().message, HasSubstr(path));
    EXPECT_FALSE(state.finished);
  }
  write_text(path, good);
  expect_restores(found, 2);
}

// With a limit of one, the previous checkpoint is removed as soon as the new one is complete, so the
// new one is read back first.
class BitRot final : public Files {
 public:
  Result<std::unique_ptr<OutputFile>> create(const std::string& path, Bytes expected) override {
    return real_->create(path, expected);
  }
  Result<void> make_directory(const std::string& path) override { return real_->make_directory(path); }
  Result<void> sync_directory(const std::string& path) override {
    const std::string file = path + "/optimizer.safetensors";
    if (std::filesystem::exists(file)) {  // all is written, nothing is renamed yet
      std::string text = file_text(file);
      text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
      write_text(file, text);
    }
    return real_->sync_directory(path);
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return real_->rename(from, to);
  }
  Result<void> remove(const std::string& path) override { return real_->remove(path); }

 private:
  std::unique_ptr<Files> real_ = create_posix_files();
};

TEST_P(Checkpoint, ACheckpointThatReadsBackDifferentlyReplacesNone) {
  save(1);
  const CheckpointOptions options{.run_dir = dir_.path(), .buffer = Bytes{64 * kib}, .read_back = true};
  MemoryState state = state_at(2);
  const auto bad = CheckpointStore::create(options, graph_, std::make_unique<BitRot>()).value();
  const auto refused = bad->save(some_state(2), state);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  EXPECT_THAT(refused.error().message, HasSubstr("optimizer.safetensors: was "));
  EXPECT_THAT(refused.error().message, HasSubstr("read back"));
  EXPECT_THAT(*checkpoint_steps(dir_.path()), ElementsAre(1));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_.path()), {}), 1);
  const auto good = CheckpointStore::create(options, graph_).value();
  ASSERT_TRUE(good->save(some_state(2), state));
  EXPECT_EQ(test::find_and_restore(*good, graph_).found->state.step, 2u);
}

TEST_P(Checkpoint, ATruncatedOrMissingFileIsNamed) {
  save(1);
  const SavedCheckpoint newest = save(2);
  for (const char* file :
       {"model.safetensors", "optimizer.safetensors", "config.json", "trainer_state.json", "manifest.json"}) {
    const std::string path = newest.path + "/" + file;
    const std::string good = file_text(path);
    for (const u64 length : {u64{0}, good.size() / 2, good.size() - 1}) {
      write_text(path, good.substr(0, length));
      const auto found = store_->find_resumable().value();
      ASSERT_EQ(found.stepped_over.size(), 1u) << file << " " << length;
      EXPECT_THAT(found.stepped_over[0].reason, HasSubstr(file));
      expect_restores(*found.found, 1);
      EXPECT_EQ(store_->open(newest.path).error().kind, ErrorKind::corrupt_checkpoint);
    }
    std::filesystem::remove(path);
    EXPECT_THAT(store_->find_resumable()->stepped_over.at(0).reason, HasSubstr(file));
    write_text(path, good);
  }
}

// Tidepool never writes such a manifest; accepting it would read files from anywhere.
TEST_P(Checkpoint, AManifestNamesOnlyFilesInItsDirectory) {
  save(1);
  const SavedCheckpoint newest = save(2);
  const std::string outside = dir_.path() + "/config.json";
  std::filesystem::copy(newest.path + "/config.json", outside);
  const Manifest sound = read_manifest(newest.path).value();
  const ListedFile entry = *sound.find("config.json");
  for (const char* name : {"../config.json", "additional_chat_templates/../../config.json"}) {
    Manifest manifest = sound;
    manifest.files.push_back({name, entry.bytes, entry.xxh3});
    write_text(newest.path + "/manifest.json", to_text(manifest));
    const auto found = store_->find_resumable().value();
    ASSERT_EQ(found.stepped_over.size(), 1u) << name;
    EXPECT_THAT(found.stepped_over[0].reason, HasSubstr("manifest.json: is not a manifest of version 1"));
    expect_restores(*found.found, 1);
  }
}

TEST_P(Checkpoint, AnotherModelOrPrecisionIsRefused) {
  save(1);
  const auto refusal = [&](const ModelGraph& graph) {
    const auto found = open_store(dir_.path(), graph)->find_resumable();
    EXPECT_FALSE(found.has_value());
    EXPECT_EQ(found.error().kind, ErrorKind::usage);
    return found.error().message;
  };
  EXPECT_THAT(refusal(tiny_graph(GetParam(), 22)), HasSubstr("n_embd is 20 there and 22 here"));
  EXPECT_THAT(refusal(tiny_graph(GetParam(), 20, 3)), HasSubstr("n_layer is 2 there and 3 here"));
  const Precision other = GetParam() == Precision::fp32 ? Precision::bf16 : Precision::fp32;
  EXPECT_THAT(refusal(tiny_graph(other)), HasSubstr("wte.weight"));
}

TEST_P(Checkpoint, SavingAStepAgainReplacesItsCheckpoint) {
  save(2);
  write_text(dir_.path() + "/checkpoint-2/model.safetensors", "broken");
  save(2);
  expect_restores(*store_->find_resumable()->found, 2);
  EXPECT_THAT(*checkpoint_steps(dir_.path()), ElementsAre(2));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_.path()), {}), 1);
}

TEST_P(Checkpoint, RotationKeepsTheNewestAndTheBest) {
  for (const u64 step : {2, 4, 10, 12}) save(step);
  ASSERT_TRUE(store_->rotate({.saved_step = 12, .total_limit = 0}).has_value());
  EXPECT_THAT(*checkpoint_steps(dir_.path()), ElementsAre(2, 4, 10, 12));
  ASSERT_TRUE(store_->rotate({.saved_step = 12, .total_limit = 3, .best_step = 2}).has_value());
  EXPECT_THAT(*checkpoint_steps(dir_.path()), ElementsAre(2, 10, 12));
  ASSERT_TRUE(store_->rotate({.saved_step = 12, .total_limit = 1, .best_step = 2}).has_value());
  EXPECT_THAT(*checkpoint_steps(dir_.path()), ElementsAre(2, 12));
  ASSERT_TRUE(store_->rotate({.saved_step = 12, .total_limit = 1}).has_value());
  EXPECT_THAT(*checkpoint_steps(dir_.path()), ElementsAre(12));
}

TEST_P(Checkpoint, RotationAfterSteppingBackDeletesBrokenCheckpointsFirst) {
  for (const u64 step : {2, 4, 6, 8}) save(step);
  // 6 and 8 did not verify; the run resumed from 4 and saved 7.
  save(7);
  const std::vector<std::string> broken = {dir_.path() + "/checkpoint-6", dir_.path() + "/checkpoint-8"};
  ASSERT_TRUE(store_->rotate({.saved_step = 7, .total_limit = 2, .distrusted = broken}).has_value());
  EXPECT_THAT(*checkpoint_steps(dir_.path()), ElementsAre(4, 7, 8));
}

TEST_P(Checkpoint, CleanUpRemovesTemporaryFilesAndRestoresARenamedCheckpoint) {
  save(2);
  const auto litter = [&](const std::string& name) {
    std::filesystem::create_directory(dir_.path() + "/" + name);
    write_text(dir_.path() + "/" + name + "/x", "x");
  };
  litter("checkpoint-4.tmp-999999999");
  litter(fmt::format("checkpoint-5.tmp-{}", ::getpid()));
  litter("checkpoint-1.gone-999999999");
  litter("checkpoint-2.old-999999999");
  litter("checkpoint-4.tmp-1");   // of a dead run whose pid another process has now
  litter("checkpoint-4.backup");  // not ours
  std::filesystem::rename(dir_.path() + "/checkpoint-2", dir_.path() + "/checkpoint-3.old-999999999");
  std::filesystem::rename(dir_.path() + "/checkpoint-2.old-999999999", dir_.path() + "/checkpoint-3");
  std::filesystem::rename(dir_.path() + "/checkpoint-3.old-999999999",
                          dir_.path() + "/checkpoint-2.old-999999999");
  EXPECT_EQ(store_->sweep()->size(), 4u);
  EXPECT_THAT(*checkpoint_steps(dir_.path()), ElementsAre(2, 3));
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/checkpoint-4.tmp-1"));
  EXPECT_TRUE(std::filesystem::exists(dir_.path() + "/checkpoint-4.backup"));
  expect_restores(store_->open(dir_.path() + "/checkpoint-2").value(), 2);
}

// The killed run's pid now belongs to a live process.
TEST_P(Checkpoint, CleanUpRestoresACheckpointRenamedByAReusedProcessId) {
  save(2);
  std::filesystem::rename(dir_.path() + "/checkpoint-2", dir_.path() + "/checkpoint-2.old-1");
  ASSERT_TRUE(store_->sweep());
  expect_restores(store_->open(dir_.path() + "/checkpoint-2").value(), 2);
}

TEST_P(Checkpoint, AnUnreadableFileIsNotReportedAsDamage) {
  save(1);
  const std::string path = save(2).path + "/optimizer.safetensors";
  std::filesystem::remove(path);
  std::filesystem::create_symlink(std::string(300, 'x'), path);  // ENAMETOOLONG
  EXPECT_EQ(store_->find_resumable().error().kind, ErrorKind::io);
  EXPECT_EQ(store_->open(dir_.path() + "/checkpoint-2").error().kind, ErrorKind::io);
}

TEST_P(Checkpoint, LoadsAsWeightsForEitherPrecision) {
  MemoryState state = state_at(1);
  state.make_finite(graph_);
  for (auto& [key, bytes] : state.bytes()) {
    if (GetParam() == Precision::bf16 && graph_.state_slots.is_master(key.second))
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
  }
  const SavedCheckpoint saved = store_->save(some_state(1), state).value();
  MemoryState loaded(graph_);
  const auto unused = load_weights(saved.path, graph_, loaded);
  ASSERT_TRUE(unused.has_value()) << unused.error().message;
  EXPECT_TRUE(unused->empty());
  for (u32 w = 0; w < graph_.windows.size(); ++w) {
    EXPECT_EQ((loaded.bytes()[{w, Kind::param}]), (state.bytes()[{w, Kind::param}]));
  }
  const ModelGraph other = tiny_graph(GetParam() == Precision::fp32 ? Precision::bf16 : Precision::fp32);
  MemoryState converted(other);
  EXPECT_TRUE(load_weights(saved.path, other, converted).has_value());
  const ModelGraph wider = tiny_graph(GetParam(), 22);
  MemoryState never(wider);
  EXPECT_THAT(load_weights(saved.path, wider, never).error().message,
              HasSubstr("tensor wte.weight is [61, 20], but the model's config needs [61, 22]"));
}

TEST(CheckpointNames, MapStepsToNamesOneToOne) {
  for (const CheckpointName n : {CheckpointName{.step = 0}, CheckpointName{.step = 50000},
                                 CheckpointName{.step = 7, .mark = CheckpointMark::tmp, .pid = 1},
                                 CheckpointName{.step = 7, .mark = CheckpointMark::old, .pid = 23},
                                 CheckpointName{.step = 7, .mark = CheckpointMark::gone, .pid = 456}}) {
    EXPECT_EQ(parse_checkpoint_name(to_text(n)), n);
  }
  for (const char* other : {"checkpoint-", "checkpoint-x", "checkpoint--1", "checkpoint-05",
                            "checkpoint-5.tmp", "checkpoint-5.tmp-", "checkpoint-5.tmp-x", "checkpoint-5 ",
                            "Checkpoint-5", "checkpoint-99999999999999999999999"}) {
    EXPECT_FALSE(parse_checkpoint_name(other).has_value()) << other;
  }
}

TEST(CheckpointTrainerState, NamesTheBestEvaluation) {
  TrainerState s = test::some_state(6);
  s.eval_losses = {{2, 3.0}, {4, 2.5}, {6, 2.75}};
  const std::string text = to_text(s);
  EXPECT_THAT(text, HasSubstr("\"best_eval_loss\": \"0x1.4p+1\""));
  EXPECT_THAT(text, HasSubstr("\"best_eval_step\": 4"));
  EXPECT_EQ(parse_trainer_state(text, "x").value(), s);
  s.eval_losses.clear();
  EXPECT_THAT(to_text(s), HasSubstr("\"best_eval_loss\": \"0x0p+0\""));
  EXPECT_THAT(to_text(s), ::testing::Not(HasSubstr("best_eval_step")));
}

TEST(CheckpointTrainerState, RecordsTheTokensOfAnEvaluation) {
  TrainerState s = test::some_state(6);
  s.eval_losses = {{2, 3.0}, {4, 2.5, 484}, {6, 2.75, 4397}};
  const std::string text = to_text(s);
  EXPECT_THAT(text, HasSubstr("\"tokens\": 4397"));
  EXPECT_THAT(text, HasSubstr("\"best_eval_step\": 6"));
  EXPECT_EQ(parse_trainer_state(text, "x").value(), s);
  std::string wrong = text;
  wrong.replace(wrong.find("4397"), 4, "\"4397\"");
  EXPECT_THAT(parse_trainer_state(wrong, "x").error().message, HasSubstr("x: eval_losses"));
}

TEST(CheckpointTrainerState, NamesTheBestEvaluationByAnotherMetric) {
  TrainerState s = test::some_state(6);
  const auto by_accuracy = [](u64 step, double loss, double accuracy, bool greater = true) {
    return EvalLoss{.step = step,
                    .loss = loss,
                    .ranked_by = "eval_accuracy",
                    .value = accuracy,
                    .greater_is_better = greater};
  };
  s.eval_losses = {{2, 0.1}, by_accuracy(4, 0.3, 0.5), by_accuracy(6, 0.5, 0.75), by_accuracy(8, 0.2, 0.7)};
  const std::string text = to_text(s);
  EXPECT_THAT(text, HasSubstr("\"best_eval_step\": 6"));
  EXPECT_THAT(text, HasSubstr("\"best_eval_loss\": \"0x1p-1\""));
  EXPECT_EQ(parse_trainer_state(text, "x").value(), s);
  // Less of it is better from here on.
  s.eval_losses.push_back(by_accuracy(10, 0.4, 0.9, false));
  EXPECT_EQ(best_evaluation(s.eval_losses)->step, 10u);
  EXPECT_EQ(comparable_evaluations(s.eval_losses).size(), 1u);
}

TEST(CheckpointTrainerState, KeepsEveryBitOfADouble) {
  TrainerState s = test::some_state(2);
  s.losses = {0.1, -0.0, 5e-324, 1.7976931348623157e308, std::numeric_limits<double>::infinity(), 1.0 / 3};
  const TrainerState back = parse_trainer_state(to_text(s), "x").value();
  for (u64 i = 0; i < s.losses.size(); ++i) {
    EXPECT_EQ(std::bit_cast<u64>(back.losses[i]), std::bit_cast<u64>(s.losses[i]));
  }
  s.losses = {std::nan("")};
  EXPECT_TRUE(std::isnan(parse_trainer_state(to_text(s), "x")->losses[0]));
  EXPECT_THAT(parse_trainer_state("{}", "file").error().message, HasSubstr("file: global_step"));
  EXPECT_THAT(changed_settings(s, {{"train.learning_rate", "0.1"}, {"new", "1"}}),
              ElementsAre("train.learning_rate: 0.001 then, 0.1 now"));
}

TEST(CheckpointConfig, RoundTripsAndRefusesSettingsThatAreComputedDifferently) {
  ModelConfig c = tiny_graph(Precision::fp32).config;
  c.residual_dropout = 0.125;
  c.mlp.inner_given = 96;
  const std::string text = hf_config_text(c, Precision::bf16);
  EXPECT_EQ(parse_hf_config(text, ErrorKind::bad_input, "config.json").value(), c);
  const auto refusal = [&](std::string from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return parse_hf_config(changed, ErrorKind::bad_input, "config.json").error().message;
  };
  EXPECT_THAT(refusal("\"gpt2\"", "\"llama\""), HasSubstr("config.json: hidden_size: is missing"));
  EXPECT_THAT(refusal("gelu_new", "relu"), HasSubstr("activation_function"));
  EXPECT_THAT(refusal("\"n_layer\": 2", "\"n_layer\": -2"), HasSubstr("n_layer: '-2' is negative"));
}

}  // namespace tidepool::store_test
