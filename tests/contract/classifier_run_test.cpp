// Classifiers of texts from training to export, whole and as adapters.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/export_model.h"
#include "checkpoint/trainer_state.h"
#include "huggingface/adapters/lora_merge.h"
#include "huggingface/directory/hf_config.h"
#include "inference/evaluate.h"
#include "inference/export_source.h"
#include "tests/support/labelled_texts.h"
#include "tests/support/lora_fixture.h"

namespace tidepool::classifier_run_test {

using test::TrainDir;

Config small_classifier(const TrainDir& dir, bool lora) {
  Config c = test::small_config(dir);
  c.model = test::small_model(Family::qwen3);  // tied: a score head of its own all the same
  if (lora) c = test::lora_config(c, test::made_base(dir, Family::qwen3));
  c = test::classifier(c, dir);
  c.train.max_steps = 18;
  c.train.eval_steps = 9;
  c.train.eval_batches = 0;
  return c;
}

Evaluation evaluated(const std::string& source, const std::vector<std::string>& overrides = {}) {
  const auto done = evaluate_model({.source = source, .overrides = overrides, .quiet = true});
  EXPECT_TRUE(done) << done.error().message;
  return done ? *done : Evaluation{};
}

class ClassifierRun : public testing::TestWithParam<bool> {};

TEST_P(ClassifierRun, IsEvaluatedResumedAndExported) {
  const TrainDir dir;
  const Config c = small_classifier(dir, GetParam());
  const auto report = test::run(c);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->eval_figure, "eval_accuracy");
  ASSERT_EQ(report->eval_figures.size(), 2u);
  EXPECT_GT(report->eval_figures.back(), 0.6);  // chance: a third

  const Objective& of = objective(ObjectiveType::sequence_classification);
  const Evaluation own = evaluated(c.output.dir);
  EXPECT_NEAR(own.all.loss(), report->eval_losses.back(), 1e-12);
  EXPECT_EQ(own.all.figure(of), report->eval_figures.back());
  std::vector<std::string> reversed = c.model.score.names;
  std::ranges::reverse(reversed);
  const auto other =
      evaluate_model({.source = c.output.dir,
                      .overrides = {fmt::format("objective.labels=[{}]", fmt::join(reversed, ","))},
                      .quiet = true});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, testing::HasSubstr("leave the key out"));

  Config again = c;
  again.output.dir = dir / "again";
  ASSERT_FALSE(test::run(again, {.stop_after = 4}));
  const auto resumed = test::run(again, {.resume = "auto"});
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(resumed->losses, report->losses);
  EXPECT_EQ(resumed->eval_figures, report->eval_figures);
  EXPECT_EQ(resumed->weights_xxh3, report->weights_xxh3);

  Config renamed = c;
  renamed.model.score.names = {"yes", "no", "maybe"};
  renamed.data.labelled = renamed.model.score;
  renamed.train.max_steps = 20;
  const auto refused = test::run(renamed, {.resume = "auto"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);

  const auto source = find_export_source(c.output.dir, "");
  ASSERT_TRUE(source) << source.error().message;
  std::unique_ptr<AdapterMerge> merge;
  if (GetParam()) {
    merge = AdapterMerge::open(source->adapter, source->directory).value();
    merge->name_labels(source->labels);
  }
  const auto model = ModelExport::open(
      source->directory,
      {.change = merge.get(), .adapter = source->adapter, .weights_xxh3 = source->base_xxh3});
  ASSERT_TRUE(model) << model.error().message;
  const auto files = create_posix_files(FileUse::other);
  ASSERT_TRUE((*model)->write(dir / "out", *files, [](u64) { return true; }));
  const ModelConfig written = read_model_directory(dir / "out").value();
  EXPECT_EQ(written.score, c.model.score);
  const Evaluation exported =
      evaluated(dir / "out", {"data.train=" + c.data.train[0], "memory.device=16MiB", "memory.host=16MiB",
                              "train.sequence_length=32", "train.per_device_train_batch_size=2"});
  EXPECT_NEAR(exported.all.loss(), own.all.loss(), GetParam() ? 1e-6 : 1e-12);
}

INSTANTIATE_TEST_SUITE_P(All, ClassifierRun, testing::Bool(),
                         [](const auto& info) { return info.param ? "adapters" : "whole"; });

}  // namespace tidepool::classifier_run_test
