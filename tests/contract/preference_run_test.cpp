// Objectives of pairs, answers and rollouts from training to export, and the reference pass before it.
#include <gmock/gmock.h>

#include <filesystem>

#include "huggingface/directory/hf_config.h"
#include "inference/evaluate.h"
#include "inference/score.h"
#include "tests/support/file_text.h"
#include "tests/support/lora_fixture.h"
#include "tests/support/preference_pairs.h"

namespace tidepool::preference_run_test {

using test::TrainDir;
using testing::HasSubstr;

Config small_preference(const TrainDir& dir, ObjectiveType type, bool lora = false) {
  Config c = test::small_config(dir);
  c.model = test::small_model(Family::qwen3);
  const bool compares =
      may_compare(objective_rule({.type = type})) || (type == ObjectiveType::distill && lora);
  const std::string base = lora || compares ? test::made_base(dir, Family::qwen3) : "";
  if (lora) c = test::lora_config(c, base);
  c.model_directory = base;
  c = test::preference(c, dir, type, compares ? base : "");
  c.train.max_steps = 12;
  c.train.eval_steps = 6;
  c.train.eval_batches = 0;
  return c;
}

std::vector<std::string> references(const TrainDir& dir) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir / "data-cache"))
    if (entry.path().filename().string().starts_with("references-")) out.push_back(entry.path());
  return out;
}

// Units or tokens that are held out: a twentieth of the documents.
u64 held_out(ObjectiveType type) {
  switch (objective(type).documents) {
    case Documents::judged:
      return 20;
    case Documents::rollouts:
      return type == ObjectiveType::rloo ? 24 : 80;
    case Documents::token_labels:
      return 74;
    case Documents::any:
      return 80;
    default:
      return 15;
  }
}

struct Case {
  ObjectiveType type;
  bool lora;
};
class PreferenceRun : public testing::TestWithParam<Case> {};

TEST_P(PreferenceRun, LearnsAndIsEvaluatedAndResumed) {
  const TrainDir dir;
  Config c = small_preference(dir, GetParam().type, GetParam().lora);
  const Objective& of = objective(GetParam().type);
  c.objective.logit_metrics =
      !GetParam().lora && std::ranges::any_of(of.metrics, &ObjectiveMetric::of_logits);
  const auto report = test::run(c);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->eval_figure, of.figure.metric);
  if (GetParam().type == ObjectiveType::distill)
    EXPECT_LT(report->eval_losses.back(),
              GetParam().lora ? 1e-3 : 0.9);  // its own teacher; untrained: above 1
  else if (of.documents == Documents::rollouts)
    EXPECT_GT(report->eval_figures.back(), 0.2);  // clipped where they are better already; untrained: 0
  else
    EXPECT_GT(report->eval_figures.back(),
              of.documents == Documents::judged ? 0.02 : 0.9);  // chance: 0; a half
  const std::string log = test::file_text(c.output.dir + "/metrics.jsonl");
  for (const ObjectiveMetric& metric : of.metrics) {
    const bool wanted = !metric.of_logits || c.objective.logit_metrics;
    EXPECT_EQ(log.find(fmt::format("\"{}\":", metric.name)) != log.npos, wanted) << metric.name;
    EXPECT_EQ(log.find(fmt::format("\"eval_{}\":", metric.name)) != log.npos, wanted) << metric.name;
  }
  const auto own = evaluate_model({.source = c.output.dir, .quiet = true});
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_NEAR(own->all.loss(), report->eval_losses.back(), 1e-9);
  EXPECT_EQ(own->all.result.targets, held_out(GetParam().type));

  Config again = c;
  again.output.dir = dir / "again";
  ASSERT_FALSE(test::run(again, {.stop_after = 4}));
  const auto resumed = test::run(again, {.resume = "auto"});
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(resumed->losses, report->losses);
  EXPECT_EQ(resumed->weights_xxh3, report->weights_xxh3);
}

INSTANTIATE_TEST_SUITE_P(All, PreferenceRun,
                         testing::Values(Case{ObjectiveType::reward, false},
                                         Case{ObjectiveType::reward, true}, Case{ObjectiveType::dpo, false},
                                         Case{ObjectiveType::dpo, true}, Case{ObjectiveType::orpo, false},
                                         Case{ObjectiveType::cpo, false}, Case{ObjectiveType::simpo, true},
                                         Case{ObjectiveType::kto, false}, Case{ObjectiveType::kto, true},
                                         Case{ObjectiveType::grpo, false}, Case{ObjectiveType::rloo, true},
                                         Case{ObjectiveType::token_classification, false},
                                         Case{ObjectiveType::token_classification, true},
                                         Case{ObjectiveType::distill, false},
                                         Case{ObjectiveType::distill, true}),
                         [](const auto& info) {
                           return std::string(name(info.param.type)) + (info.param.lora ? "_adapters" : "");
                         });

// The first step's policy is the reference, however both lie in rows.
TEST(ReferencePass, BeginsAtTheReference) {
  const TrainDir dir;
  const auto report = test::run(small_preference(dir, ObjectiveType::dpo, true));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_NEAR(report->losses.front(), std::log(2.0), 1e-6);
}

// A teacher's pass says the same as lines that `score` writes, though documents lie elsewhere in rows there.
TEST(TeacherPass, SaysWhatScoreWrites) {
  const TrainDir dir;
  Config c = small_preference(dir, ObjectiveType::distill, true);
  c.data.train = {dir / "texts.jsonl"};
  std::ofstream texts(c.data.train[0]);
  for (u32 i = 0; i < 200; ++i)
    texts << fmt::format("{{\"text\": \"{}\"}}\n", std::string(2 + i * 7 % 29, "abcdefg"[i % 7]));
  texts.close();
  const auto taught = test::run(c);
  ASSERT_TRUE(taught) << taught.error().message;
  const std::string lines = dir / "scored.jsonl";
  std::ofstream out(lines);
  const auto scored = score_documents({.source = c.objective.teacher,
                                       .overrides = {"memory.device=64MiB", "memory.host=64MiB",
                                                     "train.precision=fp32", "train.sequence_length=32"},
                                       .data = c.data.train,
                                       .top_k = 3,
                                       .quiet = true,
                                       .take = [&](const std::string& line) -> Result<void> {
                                         out << line << "\n";
                                         return {};
                                       }});
  ASSERT_TRUE(scored) << scored.error().message;
  out.close();
  Config brought = c;
  brought.output.dir = dir / "brought";
  brought.objective.teacher.clear();
  brought.data.train = {lines};
  brought.data.units = unit_settings(brought.objective, brought.model, 32);
  const auto report = test::run(brought);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->losses.size(), taught->losses.size());
  for (u64 i = 0; i < report->losses.size(); ++i) EXPECT_NEAR(report->losses[i], taught->losses[i], 2e-6);
}

// Sizes of one family pad one vocabulary to other sizes.
TEST(TeacherPass, TokensThatTheStudentLacksDoNotCount) {
  const TrainDir dir;
  for (const auto& [student, teacher] : {std::pair{256u, 300u}, {300u, 256u}}) {
    const TrainDir of_teacher;
    ModelConfig model = test::small_model(Family::qwen3);
    model.vocab_size = teacher;
    Config c = small_preference(dir, ObjectiveType::distill);
    c.model.vocab_size = student;
    c.objective.teacher = test::made_base(of_teacher, model);
    c.objective.top_k = 200;
    c.data.units = unit_settings(c.objective, c.model, c.train.sequence_length);
    c.output.dir = dir / fmt::format("run{}", student);
    const auto report = test::run(c);
    ASSERT_TRUE(report) << report.error().message;
    // With most tokens kept, hardly anything is left of either distribution.
    EXPECT_GT(report->losses.front(), 0);
    EXPECT_LT(report->losses.front(), 1);
  }
}

TEST(ReferencePass, IsMadeOnceAndFoundAgain) {
  const TrainDir dir;
  Config c = small_preference(dir, ObjectiveType::dpo, true);
  ASSERT_TRUE(test::run(c));
  const auto made = references(dir);
  ASSERT_EQ(made.size(), 1u);
  const auto when = std::filesystem::last_write_time(made[0]);
  c.output.dir = dir / "second";
  c.objective.beta = 0.5;
  ASSERT_TRUE(test::run(c));
  EXPECT_EQ(references(dir), made);
  EXPECT_EQ(std::filesystem::last_write_time(made[0]), when);
  c.output.dir = dir / "third";
  c.train.sequence_length = 28;
  c.data.units = unit_settings(c.objective, c.model, 28);
  ASSERT_TRUE(test::run(c));
  EXPECT_EQ(references(dir).size(), 2u);
}

// Wherever it was cut off, and whatever budget it goes on with, the same bytes come out.
class StoppedPass : public testing::TestWithParam<ObjectiveType> {};
INSTANTIATE_TEST_SUITE_P(All, StoppedPass, testing::Values(ObjectiveType::dpo, ObjectiveType::distill),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(StoppedPass, GoesOnWhereItWasStopped) {
  const TrainDir dir;
  Config c = small_preference(dir, GetParam(), true);
  ASSERT_TRUE(test::run(c));
  const std::string path = references(dir).at(0), whole = test::file_text(path);
  for (u32 i = 0; i < 5; ++i) {
    std::filesystem::remove(path);
    std::ofstream(path + ".unfinished", std::ios::binary) << whole.substr(0, whole.size() * i / 5 + 17 * i);
    c.output.dir = dir / fmt::format("cut-{}", i);
    c.memory.budgets.device = Bytes{(12 + i) * mib};
    const auto report = test::run(c);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(test::file_text(path), whole) << i;
    EXPECT_FALSE(std::filesystem::exists(path + ".unfinished"));
  }
}

TEST(ReferencePass, DamageEndsTheRunByName) {
  const TrainDir dir;
  Config c = small_preference(dir, ObjectiveType::dpo, true);
  ASSERT_TRUE(test::run(c));
  const std::string path = references(dir).at(0);
  std::string bytes = test::file_text(path);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  c.output.dir = dir / "damaged";
  const auto report = test::run(c);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr(path));
  EXPECT_THAT(report.error().message, HasSubstr("remove it to have it made again"));
}

TEST(ReferencePass, AnotherReferenceIsNoResume) {
  const TrainDir dir;
  const Config c = small_preference(dir, ObjectiveType::dpo);
  ASSERT_FALSE(test::run(c, {.stop_after = 4}));
  Config other = c;
  other.objective.reference = dir / "copy";
  std::filesystem::copy(c.objective.reference, other.objective.reference,
                        std::filesystem::copy_options::recursive);
  EXPECT_TRUE(test::run(other, {.resume = "auto"}));  // the same weights elsewhere
  Config third = test::small_config(dir, "third-base");
  third.model = c.model, third.train.max_steps = 2;
  ASSERT_TRUE(test::run(third));
  other = c;
  other.output.dir = dir / "begun";
  ASSERT_FALSE(test::run(other, {.stop_after = 4}));
  other.objective.reference = third.output.dir + "/checkpoint-2";
  const auto refused = test::run(other, {.resume = "auto"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_THAT(refused.error().message, HasSubstr("was trained beside another reference model"));
}

// A pair's sequences share a row in any case; pairs only with data.packing.
TEST(PreferenceRows, HoldOnePairWithoutPacking) {
  const TrainDir dir;
  Config c = small_preference(dir, ObjectiveType::simpo);
  const auto packed = test::run(c);
  c.data.packing = false;
  c.output.dir = dir / "alone";
  const auto alone = test::run(c);
  ASSERT_TRUE(packed && alone);
  EXPECT_EQ(alone->steps_per_epoch, 143u);  // 285 pairs, two rows in a step
  EXPECT_LT(packed->steps_per_epoch, 100u);
}

TEST(ReferencePass, AWrongReferenceIsNamed) {
  const TrainDir dir;
  Config c = small_preference(dir, ObjectiveType::dpo);
  c.objective.reference = dir / "nowhere";
  const auto report = test::run(c);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message,
              HasSubstr("objective.reference: " + c.objective.reference + " is not a directory"));
}

TEST(PreferenceExport, ARewardModelIsOneOfTransformers) {
  const TrainDir dir;
  const Config c = small_preference(dir, ObjectiveType::reward);
  ASSERT_TRUE(test::run(c));
  const std::string directory = c.output.dir + "/checkpoint-12";
  const std::string config = test::file_text(directory + "/config.json");
  EXPECT_THAT(config, HasSubstr("ForSequenceClassification"));
  EXPECT_THAT(config, testing::Not(HasSubstr("problem_type")));
  EXPECT_EQ(read_model_directory(directory).value().score.labels, 1u);
}

}  // namespace tidepool::preference_run_test
